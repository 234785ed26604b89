// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_EXCHANGE_ARRIVALS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_EXCHANGE_ARRIVALS_IPP

#include <causeway/parallel/elastic/exchange_arrivals.hpp>

#include <algorithm>
#include <span>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void exchange_arrivals::begin(net::any_transport& transport, const net::message_id& id) {
  said_.clear();
  heard_.clear();
  transport_ = &transport;
  id_ = id;
  heard_.resize(transport.size());
  for (net::peer_index p = 0; p < heard_.size(); ++p) {
    if (p == transport.self()) continue;
    const auto room = std::as_writable_bytes(std::span{&heard_[p].steps_and_trains, 1});
    heard_[p].operation = {transport, transport.receive(p, id, room)};
  }
}

CAUSEWAY_DECL bool exchange_arrivals::any() const {
  return std::any_of(heard_.begin(), heard_.end(),
                     [](const word& w) { return w.operation.done() && w.steps_and_trains % 2 == 1; });
}

CAUSEWAY_DECL bool exchange_arrivals::any_or_over() const {
  return any() || std::any_of(heard_.begin(), heard_.end(), [](const word& w) {
           return w.operation.started() && w.operation.done() && w.steps_and_trains == 0;
         });
}

CAUSEWAY_DECL result<std::uint64_t> exchange_arrivals::meet(std::uint64_t steps, bool trains, time_point deadline) {
  const net::peer_index self = transport_->self();
  std::uint64_t& own = heard_[self].steps_and_trains;
  own = 2 * steps + (trains ? 1 : 0);
  for (net::peer_index p = 0; p < heard_.size(); ++p) {
    if (p == self) continue;
    said_.emplace_back(*transport_, transport_->send(p, id_, std::as_bytes(std::span{&own, 1})));
  }
  std::uint64_t most = steps;
  for (net::peer_index p = 0; p < heard_.size(); ++p) {
    if (p == self) continue;
    if (heard_[p].operation.started()) {
      CAUSEWAY_ASSIGN(const std::size_t size, heard_[p].operation.wait(deadline));
      if (size != sizeof own) return fail(errc::protocol, "peer " + std::to_string(p), "it came with another word");
    }
    most = std::max(most, heard_[p].steps_and_trains / 2);
  }
  for (net::scoped_operation& one : said_) CAUSEWAY_TRY(one.wait(deadline));
  return most;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_EXCHANGE_ARRIVALS_IPP
