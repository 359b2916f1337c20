# Below: the same for every board. It makes the core, the block design and the bitstream, and
# leaves beside this script: overlay.bit, overlay.hwh, timing.rpt, utilization.rpt, result.txt.

set here [file dirname [file normalize [info script]]]
if {[string first $expected [version -short]] != 0} {
    puts "WARNING: written for Vivado $expected; this is [version -short]"
}
foreach stale {ip ip_project project overlay.bit overlay.hwh timing.rpt utilization.rpt result.txt} {
    file delete -force [file join $here $stale]
}

# The core. The attributes of vdla_ip.v say which port is which signal of which interface.
create_project -force -part $part vdla_ip [file join $here ip_project]
add_files -norecurse [list [file join $here vdla.v] [file join $here vdla_ip.v]]
set_property top vdla_ip [current_fileset]
update_compile_order -fileset sources_1
ipx::package_project -root_dir [file join $here ip] -vendor vdla -library user \
    -taxonomy /UserIP -import_files -set_current true
set core [ipx::current_core]
set_property name vdla $core
set_property version 1.0 $core
set_property display_name "VDLA" $core
set_property description "Tensor accelerator, configuration $config" $core
set_property supported_families [list $device_family Production] $core
ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
close_project

# The design.
create_project -force -part $part overlay [file join $here project]
set board_files [get_board_parts -quiet -latest_file_version "$board_part:*"]
if {[llength $board_files]} {
    set_property board_part [lindex $board_files 0] [current_project]
}
set_property ip_repo_paths [file join $here ip] [current_project]
update_ip_catalog -rebuild
create_bd_design overlay

create_bd_cell -type ip -vlnv xilinx.com:ip:$processor ps
set automation $processor_automation
if {[llength $board_files]} {
    lappend automation apply_board_preset 1
}
if {[llength $automation]} {
    apply_bd_automation -rule xilinx.com:bd_rule:$processor -config $automation [get_bd_cells ps]
}
set_property -dict $processor_settings [get_bd_cells ps]

create_bd_cell -type ip -vlnv $vlnv vdla_0
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 2} [get_bd_cells control]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1} [get_bd_cells memory]
create_bd_cell -type ip -vlnv xilinx.com:ip:axi_intc interrupts
set_property -dict {CONFIG.C_IRQ_CONNECTION 1} [get_bd_cells interrupts]

foreach {from to} [list \
    ps/$control_port control/S00_AXI \
    control/M00_AXI vdla_0/s_axi \
    control/M01_AXI interrupts/s_axi \
    vdla_0/m_axi memory/S00_AXI \
    memory/M00_AXI ps/$memory_port \
] {
    connect_bd_intf_net [get_bd_intf_pins $from] [get_bd_intf_pins $to]
}
foreach pins [list \
    [list ps/$clock_pin ps/$control_clock ps/$memory_clock reset/slowest_sync_clk control/aclk \
        memory/aclk vdla_0/clk interrupts/s_axi_aclk] \
    [list ps/$reset_pin reset/ext_reset_in] \
    [list reset/interconnect_aresetn control/aresetn memory/aresetn] \
    [list reset/peripheral_aresetn interrupts/s_axi_aresetn] \
    [list reset/peripheral_reset vdla_0/rst] \
    [list vdla_0/interrupt interrupts/intr] \
    [list interrupts/irq ps/$interrupt_pin] \
] {
    set objects {}
    foreach pin $pins {
        lappend objects [get_bd_pins $pin]
    }
    connect_bd_net {*}$objects
}

assign_bd_address -offset $address -range $address_bytes -force \
    -target_address_space [get_bd_addr_spaces ps/Data] [get_bd_addr_segs vdla_0/s_axi/reg0]
assign_bd_address -offset $controller_address -range $controller_bytes -force \
    -target_address_space [get_bd_addr_spaces ps/Data] [get_bd_addr_segs interrupts/S_AXI/Reg]
# Memory is mapped, and what else the port reaches is left out. Vivado knows where the part of
# memory beyond 32 bits lies and how much there is.
foreach segment [get_bd_addr_segs ps/$memory_interface/*] {
    set name [file tail $segment]
    if {$name eq $memory_segment} {
        assign_bd_address -offset 0x0 -range $memory_reach -force \
            -target_address_space [get_bd_addr_spaces vdla_0/m_axi] $segment
    } elseif {[string match *_DDR_HIGH $name]} {
        assign_bd_address -target_address_space [get_bd_addr_spaces vdla_0/m_axi] $segment
    } else {
        exclude_bd_addr_seg -target_address_space [get_bd_addr_spaces vdla_0/m_axi] $segment
    }
}
validate_bd_design
save_bd_design

set design [get_files overlay.bd]
set_property synth_checkpoint_mode None $design
generate_target all $design
make_wrapper -files $design -top -import
set_property top overlay_wrapper [current_fileset]
update_compile_order -fileset sources_1

# The bitstream.
proc finish {run} {
    wait_on_run $run
    if {[get_property PROGRESS [get_runs $run]] ne "100%"} {
        error "$run stopped: [get_property STATUS [get_runs $run]]"
    }
}
set_property strategy Performance_Explore [get_runs impl_1]
launch_runs synth_1 -jobs $jobs
finish synth_1
launch_runs impl_1 -to_step write_bitstream -jobs $jobs
finish impl_1
open_run impl_1
report_timing_summary -file [file join $here timing.rpt]
report_utilization -hierarchical -file [file join $here utilization.rpt]
set setup [get_property SLACK [lindex [get_timing_paths -setup -max_paths 1] 0]]
set hold [get_property SLACK [lindex [get_timing_paths -hold -max_paths 1] 0]]
file copy -force [file join $here project overlay.runs impl_1 overlay_wrapper.bit] \
    [file join $here overlay.bit]
file copy -force [file join $here project overlay.gen sources_1 bd overlay hw_handoff overlay.hwh] \
    [file join $here overlay.hwh]
set result [open [file join $here result.txt] w]
puts $result "version [version -short]"
puts $result "setup_ns $setup"
puts $result "hold_ns $hold"
puts $result "built $built"
close $result
