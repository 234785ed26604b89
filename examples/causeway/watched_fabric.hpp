// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_WATCHED_FABRIC_HPP
#define CAUSEWAY_EXAMPLES_WATCHED_FABRIC_HPP

// A fabric whose links are counted. Whom an agreement waited for is told from what ended the wait: the last control message
// before it was from the peer that was waited for. Peers tell each other their figures here: nobody else hears those.

#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "forwarding_fabric.hpp"
#include "link_meter.hpp"
#include "told_figures.hpp"

namespace app {

class watched_fabric final : public overhearing_fabric {
 public:
  /// `second`: the meter counts another fabric of this peer, too.
  watched_fabric(std::shared_ptr<fabric> over, std::shared_ptr<link_meter> meter, bool second)
      : overhearing_fabric{std::move(over)}, meter_{std::move(meter)}, second_{second ? 1U : 0U} {}

  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    const causeway::time_point begin = clock_.now();  // much of the work may be done in here
    const causeway::net::operation op = over_->send(link, id, bytes);
    meter_->sent(key(link), key(op), bytes.size(), begin);
    return op;
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    const causeway::net::operation op = over_->receive(link, id, buffer);
    meter_->receiving(key(link), key(op));
    return op;
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) override {
    const causeway::time_point begin = clock_.now();
    auto bytes = over_->wait(op, deadline);
    meter_->waited(key(op), bytes ? *bytes : 0, begin, clock_.now());
    return bytes;
  }
  causeway::result<bool> block(const std::function<bool()>& done, causeway::time_point deadline) override {
    over_->locked([this] { heard_.reset(); });
    const causeway::time_point begin = clock_.now();
    auto came = over_->block(done, deadline);
    const double seconds = causeway::seconds(clock_.now() - begin);
    std::optional<causeway::net::peer_index> last;
    over_->locked([&] { last = heard_; });
    if (last) meter_->waited_for(key(*last), seconds);
    return came;
  }

 private:
  void on_up(causeway::net::peer_index link, causeway::net::peer_id id, const std::string& address) override {
    meter_->met(key(link), id, address);
    overhearing_fabric::on_up(link, id, address);
  }
  void on_down(causeway::net::peer_index link, const causeway::error& why) override {
    meter_->lost(key(link));
    heard_ = link;
    overhearing_fabric::on_down(link, why);
  }
  void on_control(causeway::net::peer_index link, std::span<const std::byte> message) override {
    if (!message.empty() && message.front() == told_figures::kind) return take_figures(link, message);
    heard_ = link;
    overhearing_fabric::on_control(link, message);
  }

  void take_figures(causeway::net::peer_index link, std::span<const std::byte> message) {
    const auto figures = told_figures::decode(message);
    if (!figures) return over_->close(link, figures.error().message);
    meter_->told(key(link), *figures);
  }

  template <class Number>  // of a link or an operation: each fabric counts its own from 0
  [[nodiscard]] Number key(Number n) const noexcept {
    return 2 * n + second_;
  }

  std::shared_ptr<link_meter> meter_;
  std::uint32_t second_;
  causeway::steady_clock clock_;
  std::optional<causeway::net::peer_index>
      heard_;  ///< in the events since the last wait began; with the fabric's lock held
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_WATCHED_FABRIC_HPP
