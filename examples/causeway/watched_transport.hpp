// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_WATCHED_TRANSPORT_HPP
#define CAUSEWAY_EXAMPLES_WATCHED_TRANSPORT_HPP

// A transport whose links are counted: watched_fabric for peers that are fixed.

#include <causeway/core/clock.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "link_meter.hpp"

namespace app {

template <causeway::net::Transport Transport>
class watched_transport {
 public:
  watched_transport(Transport over, std::shared_ptr<link_meter> meter) : over_{std::move(over)}, meter_{std::move(meter)} {
    for (causeway::net::peer_index p = 0; p < over_.size(); ++p) {
      if (p != over_.self()) meter_->met(p, p, "");
    }
  }

  [[nodiscard]] causeway::net::peer_index self() const { return over_.self(); }
  [[nodiscard]] std::uint32_t size() const { return over_.size(); }
  causeway::net::operation send(causeway::net::peer_index to, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) {
    const causeway::time_point begin = clock_.now();  // much of the work may be done in here
    const causeway::net::operation op = over_.send(to, id, bytes);
    meter_->sent(to, op, bytes.size(), begin);
    return op;
  }
  causeway::net::operation receive(causeway::net::peer_index from, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) {
    const causeway::net::operation op = over_.receive(from, id, buffer);
    meter_->receiving(from, op);
    return op;
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) {
    const causeway::time_point begin = clock_.now();
    auto bytes = over_.wait(op, deadline);
    meter_->waited(op, bytes ? *bytes : 0, begin, clock_.now());
    return bytes;
  }
  [[nodiscard]] bool done(causeway::net::operation op) const { return over_.done(op); }
  bool wait_any(std::span<const causeway::net::operation> ops, causeway::time_point deadline) {
    return over_.wait_any(ops, deadline);
  }
  // Of no link.
  [[nodiscard]] bool sums() const requires causeway::net::SumsItself<Transport> { return over_.sums(); }
  causeway::net::operation sum(std::span<float> data) requires causeway::net::SumsItself<Transport> {
    return over_.sum(data);
  }
  [[nodiscard]] causeway::traffic stats() const { return over_.stats(); }

 private:
  Transport over_;
  std::shared_ptr<link_meter> meter_;
  causeway::steady_clock clock_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_WATCHED_TRANSPORT_HPP
