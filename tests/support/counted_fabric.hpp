// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_COUNTED_FABRIC_HPP
#define CAUSEWAY_TESTS_SUPPORT_COUNTED_FABRIC_HPP

// A fabric that tells of every call, so that a test can kill its process at the n-th.

#include <causeway/net/fabric.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// What a peer asks of a fabric, all of it but the lock and the clock.
enum class fabric_call : std::uint8_t { post, send, receive, wait, block };

/// Tells of every call before it is made. `post` comes from any thread, the others from the trainer's.
class counted_fabric final : public causeway::net::fabric {
 public:
  counted_fabric(std::shared_ptr<causeway::net::fabric> below, std::function<void(fabric_call)> count)
      : below_{std::move(below)}, count_{std::move(count)} {}
  [[nodiscard]] causeway::net::peer_id id() const override { return below_->id(); }
  [[nodiscard]] std::string address() const override { return below_->address(); }
  void attach(causeway::net::fabric_events* events) override { below_->attach(events); }
  [[nodiscard]] causeway::time_point now() const override { return below_->now(); }
  void dial(const std::string& address) override { below_->dial(address); }
  void close(causeway::net::peer_index link, const std::string& why) override { below_->close(link, why); }
  [[nodiscard]] bool is_up(causeway::net::peer_index link) const override { return below_->is_up(link); }
  void post(causeway::net::peer_index link, std::vector<std::byte> message, bool bulk) override {
    count_(fabric_call::post);
    below_->post(link, std::move(message), bulk);
  }
  void wake_at(causeway::time_point when) override { below_->wake_at(when); }
  void cancel_before(std::uint32_t epoch) override { below_->cancel_before(epoch); }
  void aside(std::function<void()> work, std::function<void()> then) override {
    below_->aside(std::move(work), std::move(then));
  }
  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    count_(fabric_call::send);
    sent_[id.channel] += bytes.size();
    return below_->send(link, id, bytes);
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    count_(fabric_call::receive);
    const auto op = below_->receive(link, id, buffer);
    channels_[op] = id.channel;
    return op;
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) override {
    if (deadline > now()) count_(fabric_call::wait);
    const auto got = below_->wait(op, deadline);
    if (const auto of = channels_.extract(op); of && got) received_[of.mapped()] += *got;
    return got;
  }
  [[nodiscard]] bool done(causeway::net::operation op) const override { return below_->done(op); }
  void locked(const std::function<void()>& what) override { below_->locked(what); }
  causeway::result<bool> block(const std::function<bool()>& done, causeway::time_point deadline) override {
    count_(fabric_call::block);
    return below_->block(done, deadline);
  }
  [[nodiscard]] causeway::traffic stats() const override { return below_->stats(); }
  [[nodiscard]] std::string describe_waits() const override { return below_->describe_waits(); }

  /// Bytes of data that were sent on that channel, headers not counted.
  [[nodiscard]] std::uint64_t sent_on(std::uint32_t channel) const {
    const auto at = sent_.find(channel);
    return at == sent_.end() ? 0 : at->second;
  }
  /// And that came.
  [[nodiscard]] std::uint64_t received_on(std::uint32_t channel) const {
    const auto at = received_.find(channel);
    return at == received_.end() ? 0 : at->second;
  }

 private:
  std::shared_ptr<causeway::net::fabric> below_;
  std::function<void(fabric_call)> count_;
  std::map<std::uint32_t, std::uint64_t> sent_, received_;
  std::map<causeway::net::operation, std::uint32_t> channels_;  // of receives under way
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_COUNTED_FABRIC_HPP
