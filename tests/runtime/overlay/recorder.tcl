# Vivado's commands, as much of them as an overlay's script may use, under tclsh.
#
# Each command takes the options that Vivado's has (UG835) and no other; an unknown one is an
# error, as an unknown command is. Behind them stands a small model of a block design: cells have
# the pins that their parameters give them, and a design is valid when every pin that must be
# driven is, by one driver, every interface has its partner, and every address a place of its own.
#
# Run as vivado is: tclsh recorder.tcl -mode batch -source build.tcl. In the environment:
#   RECORD        file for the design, one fact a line
#   FAKE_VERSION  what version -short says
#   FAKE_SETUP_NS, FAKE_HOLD_NS   slacks
#   FAKE_STOP     a run (synth_1, impl_1) that stops half-way, or a command that fails
#   FAKE_BOARDS   board files that are installed
#   FAKE_HIGH     1: the processing system has memory beyond 32 bits

proc setting {name default} {
    return [expr {[info exists ::env($name)] ? $::env($name) : $default}]
}

# Options of a command: flags, those with a value, least and most positional arguments.
array set COMMANDS {
    add_files                   {{-norecurse -force -scan_for_includes} {-fileset -of_objects -copy_to} 0 1}
    apply_bd_automation         {{} {-rule -config -dict -opt_in} 0 1}
    assign_bd_address           {{-external -import_from_file -force} {-target_address_space -boundary -master_boundary -range -offset -with_name -export_to_file} 0 1}
    close_project               {{-delete} {} 0 0}
    connect_bd_intf_net         {{} {-intf_net -boundary_type -auto_complete} 2 2}
    connect_bd_net              {{} {-net -boundary_type -auto_complete} 2 999}
    create_bd_cell              {{-combinatorial -copy_from} {-vlnv -type -reference} 1 1}
    create_bd_design            {{} {-dir -cell -bdsource -boundary_type} 1 1}
    create_project              {{-force -in_memory -ip -rtl_kernel} {-part} 0 2}
    current_fileset             {{-constrset -simset -blockset} {} 0 1}
    current_project             {{} {} 0 1}
    exclude_bd_addr_seg         {{} {-target_address_space -range -offset} 0 1}
    generate_target             {{-force} {} 2 2}
    get_bd_addr_segs            {{-regexp -nocase -hierarchical -excluded -addressed -addressing -addressables} {-filter -of_objects} 0 1}
    get_bd_addr_spaces          {{-regexp -nocase -hierarchical} {-filter -of_objects} 0 1}
    get_bd_cells                {{-regexp -nocase -hierarchical} {-filter -of_objects} 0 1}
    get_bd_intf_pins            {{-regexp -nocase -hierarchical} {-filter -of_objects} 0 1}
    get_bd_pins                 {{-regexp -nocase -hierarchical} {-filter -of_objects} 0 1}
    get_board_parts             {{-regexp -nocase -latest_file_version -latest_hw_revision} {-filter -of_objects} 0 1}
    get_files                   {{-regexp -nocase -all -norecurse} {-filter -compile_order -used_in -of_objects} 0 1}
    get_property                {{-min -max} {} 2 2}
    get_runs                    {{-regexp -nocase} {-filter} 0 1}
    get_timing_paths            {{-setup -hold -unique_pins -no_report_unconstrained -user_ignored} {-from -to -through -max_paths -nworst -delay_type -slack_lesser_than -group -sort_by -filter} 0 0}
    ipx::check_integrity        {{-kernel -xrt} {} 0 1}
    ipx::create_xgui_files      {{} {-logo_file} 0 1}
    ipx::current_core           {{} {} 0 1}
    ipx::package_project        {{-import_files -force -generated_files} {-root_dir -vendor -library -taxonomy -module -set_current -archive_path} 0 1}
    ipx::save_core              {{} {} 0 1}
    ipx::update_checksums       {{} {} 0 1}
    launch_runs                 {{-next_step -scripts_only -force} {-jobs -dir -to_step -host -email_to} 1 1}
    make_wrapper                {{-top -testbench -inst_template -import -force} {-files -fileset} 0 1}
    open_run                    {{} {-name -pr_config} 1 1}
    report_timing_summary       {{-check_timing_verbose -no_detailed_paths -no_header -append -return_string -warn_on_violation -datasheet -significant_digits} {-delay_type -max_paths -nworst -file -name -slack_lesser_than -rpx} 0 0}
    report_utilization          {{-hierarchical -append -return_string -slr} {-file -hierarchical_depth -pblocks -cells -packthru -name -format} 0 0}
    save_bd_design              {{} {} 0 1}
    set_property                {{} {-dict -name -value -objects} 1 3}
    update_compile_order        {{-force_gui} {-fileset} 0 0}
    update_ip_catalog           {{-rebuild -scan_changes} {-delete_ip -add_ip -disable_ip -repo_path -enable_ip -add_interface -delete_mult_ip -update_module_ref} 0 0}
    validate_bd_design          {{-force -design} {} 0 1}
    version                     {{-short -lang} {} 0 0}
    wait_on_run                 {{-exit_condition} {-timeout} 1 1}
}

# Wrap each: options are taken apart, then do::NAME gets the dictionary and the rest.
proc take {command arguments} {
    lassign $::COMMANDS($command) flags valued least most
    set options {}
    set rest {}
    for {set i 0} {$i < [llength $arguments]} {incr i} {
        set word [lindex $arguments $i]
        if {![regexp {^-[a-z_]+$} $word]} {
            lappend rest $word
        } elseif {$word in $flags || $word in {-quiet -verbose}} {
            dict set options $word 1
        } elseif {$word in $valued} {
            if {[incr i] >= [llength $arguments]} {
                error "$command: option $word needs a value"
            }
            dict set options $word [lindex $arguments $i]
        } else {
            error "$command: unknown option '$word'"
        }
    }
    if {[llength $rest] < $least || [llength $rest] > $most} {
        error "$command: [llength $rest] arguments, not $least to $most: $rest"
    }
    if {[setting FAKE_STOP ""] eq $command} {
        error "$command failed"
    }
    return [do::$command $options $rest]
}
# The script has an interpreter of its own, so that its variables are not those of this file.
namespace eval do::ipx {}
interp create vivado
vivado eval {namespace eval ipx {}}
foreach command [array names COMMANDS] {
    vivado alias $command called $command
}
proc called {command args} {
    return [take $command $args]
}

proc option {options name {default ""}} {
    return [expr {[dict exists $options $name] ? [dict get $options $name] : $default}]
}
proc fact {args} {
    puts $::record $args
}
proc spill {path text} {
    file mkdir [file dirname $path]
    set out [open $path w]
    puts $out $text
    close $out
}

# Projects and files.
set project ""
array set filesets {}
array set runs {}
proc need_project {} {
    if {$::project eq ""} {
        error "no open project"
    }
}
proc do::create_project {options rest} {
    if {$::project ne ""} {
        error "a project is open"
    }
    set ::project [lindex $rest 1]
    set ::sources {}
    set ::board ""
    array unset ::runs
    if {![regexp {^(xc7z|xczu|xck)} [option $options -part]]} {
        error "unknown part '[option $options -part]'"
    }
    fact part [option $options -part]
    file mkdir $::project
    return [lindex $rest 0]
}
proc do::close_project {options rest} {
    need_project
    set ::project ""
}
proc do::current_project {options rest} {
    need_project
    return project:
}
proc do::current_fileset {options rest} {
    need_project
    return fileset:
}
proc do::add_files {options rest} {
    need_project
    foreach path [lindex $rest 0] {
        if {![file exists $path]} {
            error "file '$path' does not exist"
        }
        lappend ::sources $path
    }
}
proc do::update_compile_order {options rest} {
    need_project
}
proc do::version {options rest} {
    return [setting FAKE_VERSION 2024.1]
}
proc do::get_board_parts {options rest} {
    set found {}
    foreach known [setting FAKE_BOARDS ""] {
        if {[string match [lindex $rest 0] $known]} {
            lappend found $known
        }
    }
    return $found
}

# Packaging: interfaces come from the attributes of the top module's ports.
set packaged ""
array set core {}
proc do::ipx::package_project {options rest} {
    need_project
    array unset ::core
    array set ::core {name "" version 1.0}
    foreach {key flag} {root -root_dir vendor -vendor library -library} {
        set ::core($key) [option $options $flag]
        if {$::core($key) eq ""} {
            error "ipx::package_project: $flag is missing"
        }
    }
    set text ""
    foreach path $::sources {
        set in [open $path]
        append text [read $in]
        close $in
    }
    if {![regexp "module $::top \\((.*?)\\);" $text -> ports]} {
        error "module $::top is in none of the sources"
    }
    if {![regexp {module vdla ?\(} $text]} {
        error "module vdla, which $::top instantiates, is in none of the sources"
    }
    set ::core(ports) {}
    set pattern {X_INTERFACE_INFO = "xilinx.com:(\S+):1.0 (\S+) (\S+)" \*\)\s*(?:\(\* X_INTERFACE_PARAMETER = "([^"]*)" \*\)\s*)?(input|output) wire (?:\[(\d+):0\] )?(\w+)}
    foreach {all kind interface signal parameters direction left name} \
        [regexp -all -inline $pattern $ports] {
        lappend ::core(ports) [list $kind $interface $signal $parameters $direction $left $name]
    }
    if {[llength $::core(ports)] != [regexp -all {(?:input|output) wire} $ports]} {
        error "a port of $::top has no interface"
    }
    return core:
}
proc do::ipx::current_core {options rest} {
    return core:
}
foreach command {check_integrity create_xgui_files update_checksums} {
    proc do::ipx::$command {options rest} {
        if {![info exists ::core(root)]} {
            error "no core is open"
        }
    }
}
proc do::ipx::save_core {options rest} {
    set ::packaged "$::core(vendor):$::core(library):$::core(name):$::core(version)"
    set ::packaged_at $::core(root)
    fact packaged $::packaged
}

# Properties.
proc do::set_property {options rest} {
    if {[dict exists $options -dict]} {
        set pairs [dict get $options -dict]
        set objects [lindex $rest 0]
    } else {
        set pairs [list [lindex $rest 0] [lindex $rest 1]]
        set objects [lindex $rest 2]
    }
    if {$objects eq ""} {
        error "set_property: no object"
    }
    foreach {name value} $pairs {
        set_one $name $value $objects
    }
}
proc set_one {name value object} {
    switch -glob -- [string toupper $object] {
        PROJECT: {
            if {$name eq "board_part"} {
                set ::board $value
            } elseif {$name eq "ip_repo_paths"} {
                set ::repository $value
            } else {
                error "a project has no property $name"
            }
        }
        FILESET: {
            if {$name ne "top"} {
                error "a fileset has no property $name"
            }
            set ::top $value
        }
        CORE: {
            if {$name ni {name version display_name description supported_families}} {
                error "a core has no property $name"
            }
            set ::core($name) $value
        }
        RUN:* {
            if {[string toupper $name] ne "STRATEGY" || $value ne "Performance_Explore"} {
                error "a run has no property $name with value $value"
            }
        }
        FILE:* {
            if {$name ne "synth_checkpoint_mode" || $value ne "None"} {
                error "a file has no property $name with value $value"
            }
        }
        CELL:* {
            set cell [string range $object 5 end]
            if {![regexp {^CONFIG\.(\w+)$} $name -> parameter]} {
                error "cell $cell has no property $name"
            }
            if {![info exists ::parameters($::module($cell),$parameter)]} {
                error "cell $cell ($::module($cell)) has no parameter $parameter"
            }
            set ::config($cell,$parameter) $value
            fact set $cell $parameter $value
        }
        default {
            error "set_property: unknown object $object"
        }
    }
}
proc do::get_property {options rest} {
    lassign $rest name object
    switch -glob -- "$name $object" {
        "PROGRESS run:*" {
            return $::runs([string range $object 4 end])
        }
        "STATUS run:*" {
            set run [string range $object 4 end]
            return [expr {$::runs($run) eq "100%" ? "Complete!" : "ERROR"}]
        }
        "SLACK path:setup" {
            return [setting FAKE_SETUP_NS 0.125]
        }
        "SLACK path:hold" {
            return [setting FAKE_HOLD_NS 0.050]
        }
        default {
            error "get_property: no $name of '$object'"
        }
    }
}

# The catalog: parameters with their defaults, and pins as the parameters make them.
# A pin: name, kind (pin or bus), direction (I, O, master, slave), whether it must be connected.
array set parameters {
    processing_system7,PCW_CRYSTAL_PERIPHERAL_FREQMHZ 33.333333
    processing_system7,PCW_EN_CLK0_PORT 1
    processing_system7,PCW_EN_RST0_PORT 1
    processing_system7,PCW_FPGA_FCLK0_ENABLE 1
    processing_system7,PCW_FPGA0_PERIPHERAL_FREQMHZ 50
    processing_system7,PCW_FCLK0_PERIPHERAL_CLKSRC {IO PLL}
    processing_system7,PCW_USE_FABRIC_INTERRUPT 0
    processing_system7,PCW_IRQ_F2P_INTR 0
    processing_system7,PCW_USE_M_AXI_GP0 1
    processing_system7,PCW_USE_S_AXI_HP0 0
    processing_system7,PCW_S_AXI_HP0_DATA_WIDTH 64
    zynq_ultra_ps_e,PSU__FPGA_PL0_ENABLE 1
    zynq_ultra_ps_e,PSU__CRL_APB__PL0_REF_CTRL__SRCSEL RPLL
    zynq_ultra_ps_e,PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 100
    zynq_ultra_ps_e,PSU__USE__FABRIC__RST 1
    zynq_ultra_ps_e,PSU__USE__IRQ0 1
    zynq_ultra_ps_e,PSU__USE__M_AXI_GP0 1
    zynq_ultra_ps_e,PSU__USE__M_AXI_GP1 1
    zynq_ultra_ps_e,PSU__USE__M_AXI_GP2 0
    zynq_ultra_ps_e,PSU__USE__S_AXI_GP2 0
    zynq_ultra_ps_e,PSU__MAXIGP0__DATA_WIDTH 128
    zynq_ultra_ps_e,PSU__SAXIGP2__DATA_WIDTH 128
    smartconnect,NUM_SI 2
    smartconnect,NUM_MI 1
    axi_intc,C_IRQ_CONNECTION 0
}
proc pins_of {cell} {
    set module $::module($cell)
    upvar #0 config config
    switch $module {
        processing_system7 {
            set pins {{DDR bus port 1} {FIXED_IO bus port 1}}
            foreach {parameter made} {
                PCW_EN_CLK0_PORT {{FCLK_CLK0 pin O 0}}
                PCW_EN_RST0_PORT {{FCLK_RESET0_N pin O 0}}
                PCW_IRQ_F2P_INTR {{IRQ_F2P pin I 1}}
                PCW_USE_M_AXI_GP0 {{M_AXI_GP0 bus master 1} {M_AXI_GP0_ACLK pin I 1}}
                PCW_USE_S_AXI_HP0 {{S_AXI_HP0 bus slave 1} {S_AXI_HP0_ACLK pin I 1}}
            } {
                if {$config($cell,$parameter)} {
                    lappend pins {*}$made
                }
            }
        }
        zynq_ultra_ps_e {
            set pins {}
            foreach {parameter made} {
                PSU__FPGA_PL0_ENABLE {{pl_clk0 pin O 0}}
                PSU__USE__FABRIC__RST {{pl_resetn0 pin O 0}}
                PSU__USE__IRQ0 {{pl_ps_irq0 pin I 1}}
                PSU__USE__M_AXI_GP0 {{M_AXI_HPM0_FPD bus master 1} {maxihpm0_fpd_aclk pin I 1}}
                PSU__USE__M_AXI_GP1 {{M_AXI_HPM1_FPD bus master 1} {maxihpm1_fpd_aclk pin I 1}}
                PSU__USE__M_AXI_GP2 {{M_AXI_HPM0_LPD bus master 1} {maxihpm0_lpd_aclk pin I 1}}
                PSU__USE__S_AXI_GP2 {{S_AXI_HP0_FPD bus slave 1} {saxihp0_fpd_aclk pin I 1}}
            } {
                if {$config($cell,$parameter)} {
                    lappend pins {*}$made
                }
            }
        }
        smartconnect {
            set pins {{aclk pin I 1} {aresetn pin I 1}}
            for {set i 0} {$i < $config($cell,NUM_SI)} {incr i} {
                lappend pins [list [format S%02d_AXI $i] bus slave 1]
            }
            for {set i 0} {$i < $config($cell,NUM_MI)} {incr i} {
                lappend pins [list [format M%02d_AXI $i] bus master 1]
            }
        }
        proc_sys_reset {
            set pins {
                {slowest_sync_clk pin I 1} {ext_reset_in pin I 1} {aux_reset_in pin I 0}
                {mb_debug_sys_rst pin I 0} {dcm_locked pin I 0} {mb_reset pin O 0}
                {bus_struct_reset pin O 0} {peripheral_reset pin O 0}
                {interconnect_aresetn pin O 0} {peripheral_aresetn pin O 0}
            }
        }
        axi_intc {
            set pins {
                {s_axi bus slave 1} {s_axi_aclk pin I 1} {s_axi_aresetn pin I 1} {intr pin I 1}
            }
            if {$config($cell,C_IRQ_CONNECTION)} {
                lappend pins {irq pin O 0}
            } else {
                lappend pins {interrupt bus master 0}
            }
        }
        vdla {
            set pins {}
            foreach port $::core(ports) {
                lassign $port kind interface signal parameters direction left name
                if {$kind eq "interface:aximm"} {
                    if {[regexp {^(A[RW]ADDR)$} $signal]} {
                        set role [expr {$direction eq "output" ? "master" : "slave"}]
                        if {$signal eq "ARADDR"} {
                            lappend pins [list $interface bus $role 1]
                        }
                    }
                } else {
                    set into [expr {$direction eq "input"}]
                    lappend pins [list $name pin [expr {$into ? "I" : "O"}] $into]
                }
            }
        }
    }
    return $pins
}
proc pin {path kind} {
    set path [string trimleft $path /]
    lassign [split $path /] cell name
    if {![info exists ::module($cell)]} {
        error "no cell $cell"
    }
    foreach found [pins_of $cell] {
        if {[lindex $found 0] eq $name && [lindex $found 1] eq $kind} {
            return $found
        }
    }
    error "cell $cell ($::module($cell)) has no $kind $name"
}

# The block design.
array set module {}
array set config {}
array set net {}
array set partner {}
array set mapped {}
set externals {}
proc do::update_ip_catalog {options rest} {
    need_project
    set ::available [expr {[info exists ::repository] && $::repository eq $::packaged_at}]
}
proc do::create_bd_design {options rest} {
    need_project
    set ::design [lindex $rest 0]
}
proc do::create_bd_cell {options rest} {
    set name [lindex $rest 0]
    set vlnv [split [option $options -vlnv] :]
    if {[option $options -type] ne "ip"} {
        error "create_bd_cell: type '[option $options -type]'"
    }
    if {[info exists ::module($name)]} {
        error "cell $name exists"
    }
    lassign $vlnv vendor library module version
    if {"$vendor:$library" eq "xilinx.com:ip"} {
        if {$module ni {processing_system7 zynq_ultra_ps_e smartconnect proc_sys_reset axi_intc}} {
            error "no IP $module in the catalog"
        }
    } elseif {!$::available || [join $vlnv :] ne $::packaged} {
        error "no IP [join $vlnv :] in the catalog"
    }
    set ::module($name) $module
    foreach key [array names ::parameters "$module,*"] {
        set ::config($name,[string range $key [string length $module]+1 end]) $::parameters($key)
    }
    fact cell $name [option $options -vlnv]
    return cell:$name
}
proc do::get_bd_cells {options rest} {
    set name [lindex $rest 0]
    if {![info exists ::module($name)]} {
        error "no cell $name"
    }
    return cell:$name
}
proc do::apply_bd_automation {options rest} {
    set cell [string range [lindex $rest 0] 5 end]
    if {[option $options -rule] ne "xilinx.com:bd_rule:$::module($cell)"} {
        error "no rule [option $options -rule] for $cell"
    }
    foreach {name value} [option $options -config] {
        if {$name ni {make_external apply_board_preset Master Slave}} {
            error "the rule has no setting $name"
        }
        if {$name eq "apply_board_preset" && $value && $::board eq ""} {
            error "no board to take a preset from"
        }
        if {$name eq "make_external"} {
            set ::externals [split [string map {{, } ,} $value] ,]
        }
        fact automation $cell $name $value
    }
}
proc do::get_bd_pins {options rest} {
    pin [lindex $rest 0] pin
    return [string trimleft [lindex $rest 0] /]
}
proc do::get_bd_intf_pins {options rest} {
    pin [lindex $rest 0] bus
    return [string trimleft [lindex $rest 0] /]
}
proc do::connect_bd_net {options rest} {
    set drivers {}
    foreach path $rest {
        if {[info exists ::net($path)]} {
            error "$path is connected already"
        }
        if {[lindex [pin $path pin] 2] eq "O"} {
            lappend drivers $path
        }
    }
    if {[llength $drivers] != 1} {
        error "a net must have one driver, not [llength $drivers]: $rest"
    }
    foreach path $rest {
        set ::net($path) $drivers
    }
    fact net {*}$rest
}
proc do::connect_bd_intf_net {options rest} {
    lassign $rest from to
    if {[lindex [pin $from bus] 2] ne "master" || [lindex [pin $to bus] 2] ne "slave"} {
        error "an interface net must go from master to slave, not from $from to $to"
    }
    foreach path $rest {
        if {[info exists ::partner($path)]} {
            error "$path is connected already"
        }
    }
    set ::partner($from) $to
    set ::partner($to) $from
    fact bus $from $to
}

# Addresses.
proc segments {} {
    set found {}
    foreach cell [lsort [array names ::module]] {
        switch $::module($cell) {
            processing_system7 {
                lappend found $cell/S_AXI_HP0/HP0_DDR_LOWOCM
            }
            zynq_ultra_ps_e {
                lappend found $cell/SAXIGP2/HP0_DDR_LOW $cell/SAXIGP2/HP0_LPS_OCM \
                    $cell/SAXIGP2/HP0_QSPI
                if {[setting FAKE_HIGH 0]} {
                    lappend found $cell/SAXIGP2/HP0_DDR_HIGH
                }
            }
            axi_intc {
                lappend found $cell/S_AXI/Reg
            }
            vdla {
                lappend found $cell/s_axi/reg0
            }
        }
    }
    return $found
}
proc do::get_bd_addr_segs {options rest} {
    set found {}
    foreach segment [segments] {
        if {[string match [string trimleft [lindex $rest 0] /] $segment]} {
            lappend found /$segment
        }
    }
    if {![llength $found] && ![dict exists $options -quiet]} {
        error "no segment [lindex $rest 0]"
    }
    return $found
}
proc do::get_bd_addr_spaces {options rest} {
    set space [string trimleft [lindex $rest 0] /]
    lassign [split $space /] cell name
    set spaces [dict create processing_system7 Data zynq_ultra_ps_e Data vdla m_axi]
    if {![info exists ::module($cell)] || [dict get $spaces $::module($cell)] ne $name} {
        error "no address space $space"
    }
    return /$space
}
proc do::assign_bd_address {options rest} {
    set segment [string trimleft [lindex $rest 0] /]
    set space [string trimleft [option $options -target_address_space] /]
    set offset [option $options -offset]
    set range [option $options -range]
    if {$segment eq "" || $space eq ""} {
        error "assign_bd_address: no segment or no space"
    }
    if {$offset eq ""} {
        if {![string match *_DDR_HIGH $segment]} {
            error "assign_bd_address: no offset for $segment"
        }
        set offset 0x800000000
        set range 0x80000000
    }
    if {$segment eq "vdla_0/s_axi/reg0"} {
        foreach port $::core(ports) {
            if {[lindex $port 6] eq "s_axi_araddr" && $range > 2 ** ([lindex $port 5] + 1)} {
                error "a range of $range is more than s_axi has addresses"
            }
        }
    }
    if {$offset % $range} {
        error "offset $offset must be a multiple of range $range"
    }
    if {[info exists ::mapped($space,$segment)]} {
        error "$segment is mapped already"
    }
    foreach key [array names ::mapped "$space,*"] {
        if {$::mapped($key) eq "excluded"} {
            continue
        }
        lassign $::mapped($key) other size
        if {$offset < $other + $size && $other < $offset + $range} {
            error "$segment overlaps $key"
        }
    }
    set ::mapped($space,$segment) [list $offset $range]
    fact address $space $segment $offset $range
}
proc do::exclude_bd_addr_seg {options rest} {
    set segment [string trimleft [lindex $rest 0] /]
    set ::mapped([string trimleft [option $options -target_address_space] /],$segment) excluded
    fact excluded $segment
}

proc do::validate_bd_design {options rest} {
    foreach cell [lsort [array names ::module]] {
        foreach found [pins_of $cell] {
            lassign $found name kind direction needed
            set path $cell/$name
            set there [expr {
                $direction eq "port" ? $name in $::externals
                : $kind eq "bus" ? [info exists ::partner($path)]
                : [info exists ::net($path)]
            }]
            if {$needed && !$there} {
                error "validate_bd_design: $path is not connected"
            }
        }
    }
    foreach segment [segments] {
        set space [expr {[string match ps/* $segment] ? "vdla_0/m_axi" : "ps/Data"}]
        if {![info exists ::mapped($space,$segment)]} {
            error "validate_bd_design: $segment is not mapped into $space"
        }
    }
    set ::valid 1
}
proc do::save_bd_design {options rest} {
    spill $::project/overlay.srcs/sources_1/bd/$::design/$::design.bd "{}"
}
proc do::get_files {options rest} {
    if {![info exists ::design] || [lindex $rest 0] ne "$::design.bd"} {
        error "no file [lindex $rest 0]"
    }
    return file:$::design.bd
}
proc do::make_wrapper {options rest} {
    if {[option $options -files] ne "file:$::design.bd" || ![dict exists $options -top]} {
        error "make_wrapper: nothing to wrap"
    }
    return $::project/overlay.gen/sources_1/bd/$::design/hdl/${::design}_wrapper.v
}
proc do::generate_target {options rest} {
    if {![info exists ::valid]} {
        error "generate_target: the design is not validated"
    }
    set text "<EDKSYSTEM>\n<MODULES>\n"
    append text "<MODULE INSTANCE=\"vdla_0\" VLNV=\"$::packaged\"/>\n<MODULE INSTANCE=\"ps\">\n"
    append text "<MEMORYMAP>\n"
    foreach key [lsort [array names ::mapped "ps/Data,*"]] {
        lassign $::mapped($key) offset range
        set instance [lindex [split [lindex [split $key ,] 1] /] 0]
        append text [format {<MEMRANGE INSTANCE="%s" BASEVALUE="0x%08X" HIGHVALUE="0x%08X"/>} \
            $instance $offset [expr {$offset + $range - 1}]] "\n"
    }
    append text "</MEMORYMAP>\n</MODULE>\n</MODULES>\n</EDKSYSTEM>"
    spill $::project/overlay.gen/sources_1/bd/$::design/hw_handoff/$::design.hwh $text
}

# Runs.
proc do::get_runs {options rest} {
    if {[lindex $rest 0] ni {synth_1 impl_1}} {
        error "no run [lindex $rest 0]"
    }
    return run:[lindex $rest 0]
}
proc do::launch_runs {options rest} {
    set run [lindex $rest 0]
    do::get_runs {} $run
    if {$::top ne "overlay_wrapper"} {
        error "the top is $::top"
    }
    if {$run eq "impl_1" && (![info exists ::runs(synth_1)] || $::runs(synth_1) ne "100%")} {
        error "impl_1 needs synth_1"
    }
    set ::runs($run) [expr {[setting FAKE_STOP ""] eq $run ? "40%" : "100%"}]
    if {$run eq "impl_1" && $::runs($run) eq "100%"} {
        if {[option $options -to_step] ne "write_bitstream"} {
            error "impl_1 must go on to write_bitstream"
        }
        spill $::project/overlay.runs/impl_1/overlay_wrapper.bit "bits for [setting FAKE_VERSION 2024.1]"
    }
    puts "\[12:00:00\] Launched $run..."
}
proc do::wait_on_run {options rest} {
    if {[info exists ::env(FAKE_HANG)]} {
        after [expr {1000 * $::env(FAKE_HANG)}]
    }
}
proc do::open_run {options rest} {
    if {$::runs([lindex $rest 0]) ne "100%"} {
        error "[lindex $rest 0] has not finished"
    }
}
proc do::report_timing_summary {options rest} {
    set met [expr {[setting FAKE_SETUP_NS 0.125] >= 0 && [setting FAKE_HOLD_NS 0.050] >= 0}]
    spill [option $options -file] [expr {
        $met ? "All user specified timing constraints are met." : "Timing constraints are not met."
    }]
}
proc do::report_utilization {options rest} {
    spill [option $options -file] "| CLB LUTs | 29436 |"
}
proc do::get_timing_paths {options rest} {
    return path:[expr {[dict exists $options -hold] ? "hold" : "setup"}]
}

# The command line.
set script ""
for {set i 0} {$i < $argc} {incr i} {
    switch [lindex $argv $i] {
        -mode {
            if {[lindex $argv [incr i]] ne "batch"} {
                puts "ERROR: mode [lindex $argv $i]"
                exit 1
            }
        }
        -source {
            set script [lindex $argv [incr i]]
        }
        -log {
            spill [lindex $argv [incr i]] "log"
        }
        -nojournal - -notrace {}
        -version {
            puts "vivado v[setting FAKE_VERSION 2024.1] (64-bit)"
            exit 0
        }
        default {
            puts "ERROR: unknown option [lindex $argv $i]"
            exit 1
        }
    }
}
set record [open [setting RECORD /dev/null] w]
if {[catch {vivado eval [list source $script]} message]} {
    puts "ERROR: $message"
    exit 1
}
close $record
