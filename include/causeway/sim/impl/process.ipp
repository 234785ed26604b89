// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_PROCESS_IPP
#define CAUSEWAY_SIM_IMPL_PROCESS_IPP

#include <causeway/sim/process.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL process::process(detail::core& shared, host_index host, std::uint32_t incarnation, io::any_storage storage,
                               std::function<void(process&)> program)
    : core_{shared},
      host_{host},
      incarnation_{incarnation},
      storage_{std::move(storage)},
      random_{shared.options.seed, mix(0x70726F63ULL, host, incarnation)},
      fiber_{shared.stacks, [this, run = std::move(program)] {
               try {
                 run(*this);
               } catch (const detail::process_killed&) {
               }
             }} {}

CAUSEWAY_DECL void process::add(detail::endpoint* e) { endpoints_.push_back(e); }

CAUSEWAY_DECL void process::remove(const detail::endpoint* e) { std::erase(endpoints_, e); }

CAUSEWAY_INLINE process::~process() {
  std::erase(core_.ready, this);
  core_.events.cancel(timer_);
}

CAUSEWAY_DECL void process::sleep_world(duration d) {
  const time_point when = core_.events.now() + d;
  while (core_.events.now() < when && park_until(when) != wake_reason::dying) {
  }
}

CAUSEWAY_DECL void process::sleep_till(time_point when) {
  while (now() < when && park(when) != wake_reason::dying) {
  }
}

CAUSEWAY_DECL void process::compute(duration nominal) {
  const detail::machine& m = core_.net.at(host_);
  const duration whole = detail::transfer_time(seconds(nominal), m.options.speed);
  const time_point begin = core_.events.now();
  const duration frozen = m.frozen_total;
  for (;;) {
    const time_point end = begin + whole + (m.frozen_total - frozen);
    if (core_.events.now() >= end || park_until(end) == wake_reason::dying) return;
  }
}

CAUSEWAY_DECL log_sink process::log() const {
  return log_sink{[shared = &core_, host = host_](severity level, std::string_view text) {
    if (shared->log) shared->log(shared->events.now(), host, level, text);
  }};
}

CAUSEWAY_DECL wake_reason process::park_until(time_point deadline) {
  if (killed_ && std::uncaught_exceptions() > 0) return wake_reason::dying;
  if (killed_) throw detail::process_killed{};
  CAUSEWAY_EXPECT(core_.running == this);
  woken_ = false;
  if (deadline != no_deadline) {
    timer_ = core_.events.at(deadline, {event_kind::timer, host_, incarnation_}, [this] {
      timer_ = 0;
      make_ready();
    });
  }
  fiber_.suspend();
  core_.events.cancel(std::exchange(timer_, 0));
  if (killed_) throw detail::process_killed{};
  return woken_ ? wake_reason::woken : wake_reason::deadline;
}

CAUSEWAY_DECL void process::wake() {
  woken_ = true;
  make_ready();
}

CAUSEWAY_DECL void process::run() {
  ready_ = false;
  core_.events.record({event_kind::resume, host_, incarnation_});
  process* const outer = std::exchange(core_.running, this);
  fiber_.resume();
  core_.running = outer;
}

CAUSEWAY_DECL void process::kill() {
  killed_ = true;
  let_go(true);
  if (fiber_.started() && !fiber_.finished()) run();
  CAUSEWAY_EXPECT(fiber_.finished() || !fiber_.started());
}

CAUSEWAY_DECL void process::let_go(bool killed) {
  while (!endpoints_.empty()) {
    detail::endpoint* const last = endpoints_.back();
    endpoints_.pop_back();
    last->process_ended(killed);
  }
}

CAUSEWAY_DECL void process::ask_to_stop() {
  asked_to_stop_ = true;
  wake();
}

CAUSEWAY_DECL void process::clock_changed() {
  for (detail::endpoint* const e : endpoints_) e->clock_changed();
  make_ready();
}

CAUSEWAY_DECL void process::make_ready() {
  if (std::exchange(ready_, true)) return;
  core_.ready.push_back(this);
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL core::core(const world_options& o) : options{o}, net{options, events}, stacks{o.stack_bytes} {}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_PROCESS_IPP
