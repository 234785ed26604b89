// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_TRANSPORT_HPP
#define CAUSEWAY_NET_TRANSPORT_HPP

// What policies and collectives need of a network: start a send, start a receive, wait with a deadline. Real sockets, an
// in-process network and the simulator model the same concept, and `any_transport` holds any of them by value, so that the
// very same trainer runs on all three.

#include <causeway/core/clock.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// A peer's place in the current membership: 0 to size()-1.
using peer_index = std::uint32_t;

/// Names one message. A receive matches the frame whose sender, channel, epoch and step equal its own; a frame that matches
/// but names another parent is refused with errc::wrong_parent before anybody sees its bytes.
struct message_id {
  std::uint32_t channel = 0;  ///< which conversation: see collective/channels.hpp
  std::uint32_t epoch = 0;    ///< membership epoch
  std::uint64_t step = 0;     ///< outer step or round, and what else keeps messages of one channel apart
  std::uint64_t parent = 0;   ///< hash of the committed state that the content is based on; 0 where it is based on none

  friend constexpr bool operator==(const message_id&, const message_id&) = default;
};

/// A send or receive that was started. 0 names none.
using operation = std::uint64_t;

/// Requirements. Thread safety: all calls come from one thread (the trainer's); the transport may use others inside.
///
/// - `send(to, id, bytes)` starts sending; `bytes` must stay valid and unchanged until the operation was waited for.
/// - `receive(from, id, buffer)` starts receiving one message of at most `buffer.size()` bytes into `buffer`. A longer
///   message fails with errc::too_large.
/// - `wait(op, deadline)` blocks until the operation has ended and gives the number of bytes moved. When the deadline
/// passes
///   first, it gives errc::timeout and the operation is cancelled: its buffer is free again. A lost peer ends all its
///   operations with errc::peer_lost at once.
/// - `done(op)` says, without waiting, whether the operation has ended, so that `wait` returns at once; true also for one
///   that is not under way. It takes nothing in: between two looks, something else must wait or compute.
/// - `wait_any(ops, deadline)` blocks until `done` says so of one of them, which it says. False: the deadline passed first,
///   or the transport was told to stop; `wait` then says which. It ends and cancels none of them.
/// - Messages between two peers with equal ids arrive in order. Messages that arrive before their receive is started are
///   kept, up to a limit.
template <class T>
concept Transport = Movable<T> &&
    requires(T& t, const T& c, peer_index peer, const message_id& id, std::span<const std::byte> out,
             std::span<std::byte> in, operation op, time_point deadline) {
  { c.self() } -> std::same_as<peer_index>;
  { c.size() } -> std::same_as<std::uint32_t>;
  { t.send(peer, id, out) } -> std::same_as<operation>;
  { t.receive(peer, id, in) } -> std::same_as<operation>;
  { t.wait(op, deadline) } -> std::same_as<result<std::size_t>>;
  { c.done(op) } -> std::same_as<bool>;
  { t.wait_any(std::span<const operation>{}, deadline) } -> std::same_as<bool>;
  { c.stats() } -> std::same_as<traffic>;
};

/// Optional, for a transport that adds up by means of its own, such as MPI's collectives:
///
/// - `sum(data)` begins data[i] = the sum over all peers, in place, and is waited for as a send is. All peers begin equal
///   sums in the same order. Afterwards all hold the same bits, added in an order that is the transport's own. A sum has no
///   name: nobody notices a peer that adds something else.
/// - `sums()`: whether this one wants to be asked.
template <class T>
concept SumsItself = Transport<T> && requires(T& t, const T& c, std::span<float> data) {
  { c.sums() } -> std::same_as<bool>;
  { t.sum(data) } -> std::same_as<operation>;
};

/// The network of a peer that is alone.
class solo_transport {
 public:
  static constexpr peer_index self() noexcept { return 0; }
  static constexpr std::uint32_t size() noexcept { return 1; }
  static operation send(peer_index, const message_id&, std::span<const std::byte>) noexcept { return 1; }
  static operation receive(peer_index, const message_id&, std::span<std::byte>) noexcept { return 1; }
  CAUSEWAY_DECL static result<std::size_t> wait(operation, time_point);
  static constexpr bool done(operation) noexcept { return true; }
  static constexpr bool wait_any(std::span<const operation>, time_point) noexcept { return true; }
  static traffic stats() noexcept { return {}; }
};
static_assert(Transport<solo_transport>);

template <class T>
concept KnowsItself = requires(const T& t) {
  t.self();
};

/// Any transport, held by value; one virtual call per message.
class any_transport {
 public:
  CAUSEWAY_DECL any_transport();

  /// Any transport is one, without a cast. What is none is told from the first call alone: asking it for moves would ask
  /// for conversions to this type again.
  template <class T>
    requires(!std::same_as<T, any_transport> && KnowsItself<T> && Transport<T>)
  any_transport(T transport) : model_{std::make_unique<model<T>>(std::move(transport))} {}

  /// What is no transport: a compiler's error names its type `T` here.
  template <class T>
    requires(!std::derived_from<T, any_transport> && !KnowsItself<T>)
  any_transport(const T& not_a_transport)
  = delete;

  [[nodiscard]] peer_index self() const { return model_->self(); }
  [[nodiscard]] std::uint32_t size() const { return model_->size(); }
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  result<std::size_t> wait(operation op, time_point deadline) { return model_->wait(op, deadline); }
  [[nodiscard]] bool done(operation op) const { return model_->done(op); }
  bool wait_any(std::span<const operation> ops, time_point deadline) { return model_->wait_any(ops, deadline); }
  [[nodiscard]] traffic stats() const { return model_->stats(); }
  /// False where it models no SumsItself; then `sum` is not called.
  [[nodiscard]] bool sums() const { return model_->sums(); }
  operation sum(std::span<float> data) { return model_->sum(data); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual peer_index self() const = 0;
    virtual std::uint32_t size() const = 0;
    virtual operation send(peer_index, const message_id&, std::span<const std::byte>) = 0;
    virtual operation receive(peer_index, const message_id&, std::span<std::byte>) = 0;
    virtual result<std::size_t> wait(operation, time_point) = 0;
    virtual bool done(operation) const = 0;
    virtual bool wait_any(std::span<const operation>, time_point) = 0;
    virtual traffic stats() const = 0;
    virtual bool sums() const = 0;
    virtual operation sum(std::span<float>) = 0;
  };

  template <class T>
  struct model final : interface {
    explicit model(T t) : transport{std::move(t)} {}
    peer_index self() const override { return transport.self(); }
    std::uint32_t size() const override { return transport.size(); }
    operation send(peer_index to, const message_id& id, std::span<const std::byte> b) override {
      return transport.send(to, id, b);
    }
    operation receive(peer_index from, const message_id& id, std::span<std::byte> b) override {
      return transport.receive(from, id, b);
    }
    result<std::size_t> wait(operation op, time_point deadline) override { return transport.wait(op, deadline); }
    bool done(operation op) const override { return transport.done(op); }
    bool wait_any(std::span<const operation> ops, time_point deadline) override {
      return transport.wait_any(ops, deadline);
    }
    traffic stats() const override { return transport.stats(); }
    bool sums() const override {
      if constexpr (SumsItself<T>) return transport.sums();
      return false;
    }
    operation sum(std::span<float> data) override {
      if constexpr (SumsItself<T>) return transport.sum(data);
      return {};
    }
    T transport;
  };

  std::unique_ptr<interface> model_;
};
static_assert(SumsItself<any_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/transport.ipp>
#endif

#endif  // CAUSEWAY_NET_TRANSPORT_HPP
