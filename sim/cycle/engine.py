"""The timing engine: ``docs/timing.md`` as events, compiled by numba and cached on disk.

Every function here is compiled; numba checks a cached function against its own file only, which
is why they share one, and why all constants arrive as arguments. Actors are woken at a cycle
and either act or say when to try again. Each condition compares recorded cycles with the
current one, so the order of actors within a cycle makes no difference.
"""

from __future__ import annotations

from typing import Any

from .jit import compiled
from .state import NEVER

__all__ = ["COMPLETE", "DEADLOCK", "LIMIT", "simulate"]

COMPLETE, DEADLOCK, LIMIT = 0, 1, 2

# Actors. Generators 0..2 read (fetch, load, loader), 3 writes (store); modules 0..2 start and
# retire.
_GENERATE, _ARBITER, _DISPATCH, _START, _RETIRE, _ACTORS = 0, 4, 5, 6, 9, 12
_FETCH, _STORE = 0, 3
_LOAD_KIND, _STORE_KIND, _FINISH_KIND = 0, 2, 3
_RING = 64


@compiled
def _wake(s: Any, actor: int, cycle: int) -> None:
    """Have an actor look at `cycle`; from `NEVER` on, something else will wake it."""
    if cycle < min(s.wake[actor], NEVER):
        s.wake[actor] = cycle


@compiled
def _cycle_of(spent: Any, earned: Any) -> Any:
    """Return the cycle in which a channel of memory has earned what it spends."""
    return -(-spent // earned)


@compiled
def _generate(c: Any, b: Any, s: Any, p: Any, t: int, r: int) -> None:
    """Emit the next burst of generator r, or say when to try again."""
    port = s.port[r]
    if port.burst == port.end_burst:
        return
    # A request that still waits for its grant keeps the register: the grant wakes the generator.
    wait = port.next_burst if r == _STORE or port.request == NEVER else NEVER
    slots = p.fetch_slots if r == _FETCH else p.read_slots
    if port.bursts >= slots:
        wait = max(wait, s.slot_free[r, (port.bursts - slots) % _RING])
    if wait > t:
        _wake(s, _GENERATE + r, wait)
        return
    s.slot_free[r, port.bursts % _RING] = NEVER
    if r == _STORE:
        _send(c, b, s, p, t)
    else:
        port.request = t + p.request
        port.requested = port.burst
        port.request_of = port.instruction
        _wake(s, _ARBITER, max(t + p.request, s.one[0].bus_free))
    port.bursts += 1
    port.burst += 1
    port.next_burst = t + 1
    if port.burst < port.end_burst:
        _wake(s, _GENERATE + r, t + 1)
    elif r != _FETCH:
        port.free_at = t + 1
        _wake(s, _START + r - 1, t + 1)


@compiled
def _send(c: Any, b: Any, s: Any, p: Any, t: int) -> None:
    """Give a burst of store its place on the write channel, and its response's cycle."""
    port = s.port[_STORE]
    i = port.instruction
    begin = max(port.write_free, t + p.store_data)
    end = begin + b.cells[port.burst]
    port.write_free = end
    if p.cost > 1:
        lanes = max(1, p.axi_bytes // c.element_bytes[i])
        port.write_free = _pay(s.one[0], b[port.burst], lanes, begin, p.cost, p.earned) + 1
        end = s.one[0].written + 1
    response = end - 1 + p.dram_latency
    s.slot_free[_STORE, port.bursts % _RING] = response + 1
    s.log.first_write[i] = min(s.log.first_write[i], begin)
    s.log.end_write[i] = end
    s.log.busy[i] += b.cells[port.burst]
    if port.burst + 1 == port.end_burst:
        s.log.ready[i] = response + p.response
        _wake(s, _RETIRE + 2, s.log.ready[i])


@compiled
def _pay(one: Any, burst: Any, lanes: Any, begin: Any, cost: Any, earned: Any) -> Any:
    """Have memory take a burst of store at its pace; returns when its last beat was offered.

    Takes members one by one: to hand on the state costs more than the work.
    """
    left = burst.cells
    cells = burst.head
    offered = begin - 1
    for _ in range(burst.beats):
        # Elements gather while the beat before waits; the last of a beat needs its register.
        offered = max(offered + cells, one.written + 1)
        one.write_spent = max(one.write_spent + cost, earned * (offered - 1) + 1)
        one.written = _cycle_of(one.write_spent, earned)
        left -= cells
        cells = min(lanes, left)
    return offered


@compiled
def _arbitrate(c: Any, b: Any, s: Any, p: Any, t: int) -> None:
    one = s.one[0]
    if t < one.bus_free:
        _wake(s, _ARBITER, one.bus_free)
        return
    chosen = -1
    for k in range(3, 0, -1):
        r = (one.granted + k) % 3
        if s.port[r].request <= t:
            chosen = r
    if chosen < 0:
        for r in range(3):
            _wake(s, _ARBITER, s.port[r].request)
        return
    port = s.port[chosen]
    accept = t + p.grant
    if one.accepted >= p.outstanding:
        accept = max(accept, s.last_beat[(one.accepted - p.outstanding) % _RING] + 1)
    if p.cost == 1:  # a beat a cycle: what is spent is a cycle
        spent = max(one.read_spent + 1, accept + p.dram_latency)
        one.read_spent = spent + b.beats[port.requested] - 1
        first, last = spent, one.read_spent
    else:
        spent = max(one.read_spent + p.cost, p.earned * (accept + p.dram_latency - 1) + 1)
        one.read_spent = spent + p.cost * (b.beats[port.requested] - 1)
        first, last = _cycle_of(spent, p.earned), _cycle_of(one.read_spent, p.earned)
    s.last_beat[one.accepted % _RING] = last
    one.bus_free, one.granted = accept, chosen
    one.accepted += 1
    port.request = NEVER
    _wake(s, _GENERATE + chosen, t)
    for r in range(3):
        _wake(s, _ARBITER, max(accept, s.port[r].request))
    if chosen == _FETCH:
        s.fetch_spent[port.requested - one.fetch_base] = spent
        _wake(s, _DISPATCH, first + p.drain)
    else:
        _write(c, b, s, p, t, chosen, first, spent)


@compiled
def _write(c: Any, b: Any, s: Any, p: Any, t: int, r: int, first: Any, spent: Any) -> None:
    """Place an accepted burst in the time of its reader's write stage."""
    port = s.port[r]
    i, pads, cells = port.request_of, b.pads[port.requested], b.cells[port.requested]
    padded = max(port.write_free, s.log.start[i] + 1)
    begin = max(padded + pads, first + p.drain)
    end = begin + cells
    if p.cost > 1:
        lanes = max(1, p.axi_bytes // c.element_bytes[i])
        last = _last_arrival(b[port.requested], lanes, spent, p.cost, p.earned)
        end = max(end, last + p.drain)
    s.log.first_write[i] = min(s.log.first_write[i], padded if pads > 0 else begin)
    s.log.busy[i] += pads + cells
    port.write_free = end
    s.slot_free[r, port.accepted % _RING] = port.write_free
    port.accepted += 1
    _wake(s, _GENERATE + r, port.write_free)
    if port.requested + 1 == c.end_burst[i]:
        port.write_free += c.pad_tail[i]
        s.log.busy[i] += c.pad_tail[i]
        _written(s, r, i)
        _write_empty(c, s, r)


@compiled
def _last_arrival(burst: Any, lanes: Any, spent: Any, cost: Any, earned: Any) -> Any:
    """Return when a stage that waits for nothing but beats is through with a burst.

    Full beats come either faster or slower than their elements are written: what decides is the
    second beat or the last.
    """
    more = burst.beats - 1
    if more == 0:
        return 0
    after_head = burst.cells - burst.head
    tail = after_head - lanes * (more - 1)
    second = _cycle_of(spent + cost, earned) + after_head
    return max(second, _cycle_of(spent + cost * more, earned) + tail)


@compiled
def _written(s: Any, r: int, i: int) -> None:
    s.log.end_write[i] = s.log.ready[i] = s.port[r].write_free
    s.port[r].write_head += 1
    _wake(s, _RETIRE + r - 1, s.log.ready[i])


@compiled
def _write_empty(c: Any, s: Any, r: int) -> None:
    """Pass loads without bursts through the write stage, as far as they are next in it."""
    port = s.port[r]
    while port.write_head < port.write_tail:
        i = s.writing[r, port.write_head]
        if c.first_burst[i] < c.end_burst[i]:
            return
        s.log.busy[i] = max(1, c.pad_head[i])
        s.log.first_write[i] = max(port.write_free, s.log.start[i] + 1)
        port.write_free = s.log.first_write[i] + s.log.busy[i]
        _written(s, r, i)


@compiled
def _dispatch(c: Any, s: Any, p: Any, t: int) -> None:
    one = s.one[0]
    i = one.fetch_next
    if i == len(s.log):
        return
    last_byte = 16 * i + 15
    beat = last_byte // p.axi_bytes
    wait = s.fetch_spent[beat // p.burst_beats]
    if p.cost == 1:
        wait += beat % p.burst_beats + p.drain
    elif wait < NEVER:
        wait = _cycle_of(wait + beat % p.burst_beats * p.cost, p.earned) + p.drain
    wait = max(wait, one.fetch_cycle + 1)
    m = c.module[i]
    module = s.module[m]
    if module.dispatched >= p.command_depth:
        oldest = module.offset + module.dispatched - p.command_depth
        wait = max(wait, s.log.start[s.order[oldest]] + 1)
    if wait > t:
        _wake(s, _DISPATCH, wait)
        return
    s.log.dispatch[i] = t
    module.dispatched += 1
    one.fetch_next, one.fetch_cycle = i + 1, t
    _wake(s, _START + m, t + p.queue)
    _wake(s, _DISPATCH, t + 1)
    while (one.fetch_freed + 1) * p.burst_beats * p.axi_bytes - 1 <= last_byte:
        s.slot_free[_FETCH, one.fetch_freed % _RING] = t + 1
        one.fetch_freed += 1
        _wake(s, _GENERATE + _FETCH, t + 1)


@compiled
def _token_cycle(s: Any, q: int, after: int) -> Any:
    """Return the first cycle, not before `after`, in which queue q has a token to pop."""
    return after if q < 0 else max(after, s.pushed[q, s.queue.pops[q]] + 1)


@compiled
def _start_wait(c: Any, s: Any, p: Any, i: int, m: int, k: int) -> Any:
    """Return the first cycle in which instruction i meets every condition known so far."""
    visible = s.log.dispatch[i] + p.queue
    s.log.has_prev[i] = _token_cycle(s, c.pop_prev[i], visible)
    s.log.has_next[i] = _token_cycle(s, c.pop_next[i], s.log.has_prev[i])
    t = s.log.has_next[i]
    offset = s.module.offset[m]
    if k > 0:
        t = max(t, s.log.start[s.order[offset + k - 1]] + 1)
    if k >= p.inflight:
        t = max(t, s.log.finish[s.order[offset + k - p.inflight]] + 1)
    kind = c.kind[i]
    if kind in (_LOAD_KIND, _STORE_KIND):
        t = max(t, s.port.free_at[m + 1])
        if m == 1 and s.one[0].last_issue >= 0:
            t = max(t, s.log.finish[s.one[0].last_issue] + 1)
        return t
    if s.one[0].last_load >= 0:
        visible = max(visible, s.log.finish[s.one[0].last_load] + 1)
    t = max(t, visible + p.sequencer, s.one[0].issue_free)
    if kind == _FINISH_KIND and k > 0:
        t = max(t, s.log.finish[s.order[offset + k - 1]] + 1)
    return t


@compiled
def _pop(c: Any, s: Any, q: int, t: int) -> None:
    if q >= 0:
        s.popped[q, s.queue.pops[q]] = t
        s.queue.pops[q] += 1
        # Queues 0 and 1 join load and compute, 2 and 3 compute and store.
        _wake(s, _RETIRE + (0 if q == 0 else 2 if q == 3 else 1), t + 1)


@compiled
def _start(c: Any, s: Any, p: Any, t: int, m: int, fill: Any) -> None:
    k = s.module.started[m]
    if k >= s.module.dispatched[m]:
        return
    i = s.order[s.module.offset[m] + k]
    earliest = _start_wait(c, s, p, i, m, k)
    if earliest > t:
        _wake(s, _START + m, earliest)
        return
    s.log.start[i] = t
    s.module.started[m] = k + 1
    _pop(c, s, c.pop_prev[i], t)
    _pop(c, s, c.pop_next[i], t)
    _wake(s, _DISPATCH, t + 1)
    _wake(s, _START + m, t + 1)
    kind = c.kind[i]
    if kind in (_LOAD_KIND, _STORE_KIND):
        _start_transfer(c, s, p, t, i, m, fill)
        return
    slots, stalls = _issue(c, s, p, t, i)
    s.one[0].last_issue = i
    s.one[0].issue_free = t + slots
    s.log.first_write[i] = t
    s.log.end_write[i] = t + slots
    s.log.busy[i] = slots - stalls
    s.log.ready[i] = t + slots - 1 + p.latency
    _wake(s, _RETIRE + 1, s.log.ready[i])


@compiled
def _start_transfer(c: Any, s: Any, p: Any, t: int, i: int, m: int, fill: Any) -> None:
    port = s.port[m + 1]
    moves = c.first_burst[i] < c.end_burst[i]
    if moves:
        port.instruction = i
        port.burst, port.end_burst = c.first_burst[i], c.end_burst[i]
        port.next_burst = t + p.setup
        port.free_at = NEVER
        _wake(s, _GENERATE + m + 1, t + p.setup)
    if c.kind[i] == _STORE_KIND:
        if not moves:
            s.log.ready[i] = t + 1
            s.log.first_write[i] = s.log.end_write[i] = max(port.write_free, t + 1)
            _wake(s, _RETIRE + 2, t + 1)
        return
    s.writing[m + 1, port.write_tail] = i
    port.write_tail += 1
    _write_empty(c, s, m + 1)
    if m == 1:
        s.one[0].last_load = i
        for k in range(c.uop_size[i]):  # nothing reads them before this load retires
            s.uops[c.sram[i] + k] = fill[c.uop_at[i] + k]


@compiled
def _operand(s: Any, p: Any, x: int, entry: int) -> Any:
    """Return the first cycle, not before x, in which an ACC entry can be read."""
    for k in range(max(0, s.one[0].slow_count - p.slow), s.one[0].slow_count):
        if s.slow_dst[k % _RING] == entry:
            x = max(x, s.slow_issue[k % _RING] + p.slow)
    return x


@compiled
def _issue(c: Any, s: Any, p: Any, t: int, i: int) -> tuple[Any, Any]:
    """Return the issue slots of a GEMM, ALU, FINISH or empty instruction, and stalls in them."""
    count = c.count[i]
    if count == 0 or c.kind[i] == _FINISH_KIND:
        return 1, 0
    cost = p.tensor_slots if c.reads_src[i] else 1
    slow = c.is_slow[i]
    if not slow and (t >= s.one[0].slow_until or not c.reads_dst[i]):
        return count * cost, 0
    x = t
    stalls = 0
    done = 0
    previous = -1
    for o in range(c.iter_out[i]):
        for n in range(c.iter_in[i]):
            for u in range(c.uop_begin[i], c.uop_end[i]):
                word = s.uops[u]
                dst = (word & p.dst_mask) + o * c.dst_out[i] + n * c.dst_in[i]
                src = ((word >> p.src_lsb) & p.src_mask) + o * c.src_out[i] + n * c.src_in[i]
                if c.reads_src[i]:
                    y = _operand(s, p, x, src)
                    stalls += y - x
                    x = y + cost - 1
                elif c.is_rq[i] and src != previous:
                    for k in range(p.rq_reads):
                        y = _operand(s, p, x, src + k)
                        stalls += y - x
                        x = y + 1
                    s.log.parameter_reads[i] += p.rq_reads
                    previous = src
                y = _operand(s, p, x, dst)
                stalls += y - x
                x = y + 1
                done += 1
                if slow:
                    s.slow_dst[s.one[0].slow_count % _RING] = dst
                    s.slow_issue[s.one[0].slow_count % _RING] = y
                    s.one[0].slow_count += 1
                    s.one[0].slow_until = y + p.slow
                elif x >= s.one[0].slow_until:
                    return x - t + (count - done) * cost, stalls
    return x - t, stalls


@compiled
def _retire(c: Any, s: Any, p: Any, t: int, m: int) -> None:
    k = s.module.retired[m]
    offset = s.module.offset[m]
    if k >= s.module.started[m]:
        return
    i = s.order[offset + k]
    earliest = s.log.ready[i]
    if k > 0:
        earliest = max(earliest, s.log.finish[s.order[offset + k - 1]] + 1)
    for q in (c.push_prev[i], c.push_next[i]):
        if q >= 0 and s.queue.pushes[q] >= p.token_depth:
            earliest = max(earliest, s.popped[q, s.queue.pushes[q] - p.token_depth] + 1)
    if earliest > t:
        _wake(s, _RETIRE + m, earliest)
        return
    s.log.finish[i] = t
    s.module.retired[m] = k + 1
    for q in (c.push_prev[i], c.push_next[i]):
        if q >= 0:
            s.pushed[q, s.queue.pushes[q]] = t
            s.queue.pushes[q] += 1
            _wake(s, _START + (0 if q == 1 else 2 if q == 2 else 1), t + 1)
    _wake(s, _START + m, t + 1)
    _wake(s, _RETIRE + m, t + 1)


@compiled
def simulate(c: Any, b: Any, s: Any, p: Any, fill: Any, limit: int) -> tuple[Any, Any]:
    """Run to the end, a deadlock or the cycle limit; returns which, and the cycle."""
    n = len(s.log)
    now = 0
    while True:
        actor = 0
        t = s.wake[0]
        for a in range(1, _ACTORS):
            if s.wake[a] < t:
                t = s.wake[a]
                actor = a
        if t >= NEVER:
            break
        if t >= limit and s.log.finish[n - 1] == NEVER:
            return LIMIT, t
        now = t
        s.wake[actor] = NEVER
        if actor < _ARBITER:
            _generate(c, b, s, p, t, actor)
        elif actor == _ARBITER:
            _arbitrate(c, b, s, p, t)
        elif actor == _DISPATCH:
            _dispatch(c, s, p, t)
        elif actor < _RETIRE:
            _start(c, s, p, t, actor - _START, fill)
        else:
            _retire(c, s, p, t, actor - _RETIRE)
    for m in range(3):
        if s.module.retired[m] < s.module.count[m]:
            return DEADLOCK, now
    return COMPLETE, s.log.finish[n - 1]
