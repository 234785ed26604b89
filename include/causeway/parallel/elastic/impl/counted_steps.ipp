// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_COUNTED_STEPS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_COUNTED_STEPS_IPP

#include <causeway/parallel/elastic/counted_steps.hpp>

#include <causeway/core/rng.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void counted_steps::begin(net::any_transport& transport, const net::message_id& id,
                                        std::span<const net::peer_index> others) {
  said_.clear();
  heard_.clear();
  transport_ = &transport;
  id_ = id;
  told_ = 0;
  reached_ = false;
  for (const net::peer_index peer : others) heard_.push_back({.peer = peer});
  for (word& w : heard_) listen(w);  // which stay where they are
}

CAUSEWAY_DECL bool counted_steps::reach(std::uint64_t own, std::uint64_t enough) {
  std::uint64_t sum = own;
  for (word& w : heard_) {
    while (w.operation.started() && w.operation.done()) {
      const auto size = w.operation.wait(no_deadline);
      if (!size || *size != sizeof w.room) break;  // the attempt is over, or whoever that is says nothing more
      w.steps = w.room;
      listen(w);
    }
    sum += w.steps;
  }
  if (!reached_) tell(own);  // also the step that it is reached with
  reached_ = sum >= enough;
  return reached_;
}

CAUSEWAY_DECL void counted_steps::listen(word& w) {
  const auto room = std::as_writable_bytes(std::span{&w.room, 1});
  w.operation = {*transport_, transport_->receive(w.peer, named(w.number++), room)};
}

CAUSEWAY_DECL void counted_steps::tell(std::uint64_t own) {
  while (!said_.empty() && said_.front().operation.done()) said_.pop_front();
  const net::message_id id = named(told_++);
  for (const word& w : heard_) {
    said& one = said_.emplace_back();
    one.steps = own;
    one.operation = {*transport_, transport_->send(w.peer, id, std::as_bytes(std::span{&one.steps, 1}))};
  }
}

CAUSEWAY_DECL net::message_id counted_steps::named(std::uint64_t number) const {
  net::message_id id = id_;
  id.step = mix(id_.step, number + 1);
  return id;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_COUNTED_STEPS_IPP
