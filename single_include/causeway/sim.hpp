// SPDX-License-Identifier: Apache-2.0
// Causeway 0.1.0, what causeway/sim.hpp includes in one. Written by tools/amalgamate.py: change the headers, not this file.

// ---- causeway/config/version.hpp ----
#ifndef CAUSEWAY_CONFIG_VERSION_HPP
#define CAUSEWAY_CONFIG_VERSION_HPP

// The library version; CMake reads the three numbers from here. Wire protocol and file formats have versions of their own.

#define CAUSEWAY_VERSION_MAJOR 0
#define CAUSEWAY_VERSION_MINOR 1
#define CAUSEWAY_VERSION_PATCH 0
#define CAUSEWAY_VERSION (CAUSEWAY_VERSION_MAJOR * 10000 + CAUSEWAY_VERSION_MINOR * 100 + CAUSEWAY_VERSION_PATCH)
#define CAUSEWAY_VERSION_STRING "0.1.0"

#endif  // CAUSEWAY_CONFIG_VERSION_HPP

// ---- causeway/config/config.hpp ----
#ifndef CAUSEWAY_CONFIG_CONFIG_HPP
#define CAUSEWAY_CONFIG_CONFIG_HPP

// Switches a user may set, the inline ABI namespace, and a handful of attribute macros. A project can put its own
// switches in <causeway_user_config.hpp>, which is read first when it exists.

#if __has_include(<causeway_user_config.hpp>)
#include <causeway_user_config.hpp>
#endif

// The inline namespace keeps two copies of the library with different layouts apart in one program.
#define CAUSEWAY_ABI v0_1

// CAUSEWAY_EXPECT checks what our own callers promised. On in debug builds, or where CAUSEWAY_CHECKED is defined; off
// otherwise. What the world can do to us (network, disk, input) is never checked this way: that returns a result.
#if defined(CAUSEWAY_CHECKED) || !defined(NDEBUG)
#include <cstdio>
#include <cstdlib>
#define CAUSEWAY_EXPECT(condition)                                                                                     \
  ((condition) ? static_cast<void>(0)                                                                                  \
               : (std::fprintf(stderr, "causeway: precondition failed: %s (%s:%d)\n", #condition, __FILE__, __LINE__), \
                  std::abort()))
#else
#define CAUSEWAY_EXPECT(condition) static_cast<void>(0)
#endif

// Functions that are no templates have their bodies in impl/*.ipp: part of the headers, or, with CAUSEWAY_COMPILED, of one
// object that all share (causeway::compiled, or a source file of one's own that includes <causeway/impl/src.hpp>). As part
// of the headers they are templates without parameters, so that a compiler instantiates what a body needs only where it is
// called. CAUSEWAY_INLINE is for those that cannot be templates: virtual functions, destructors, copies, and what is passed
// as a pointer. A class whose virtual functions reach far is a template itself, basic_NAME<Whole> with NAME for
// basic_NAME<void>: its bodies say CAUSEWAY_LAZY, and only who makes an object instantiates them.
#define CAUSEWAY_LAZY template <class Whole>
#ifdef CAUSEWAY_COMPILED
#define CAUSEWAY_DECL
#define CAUSEWAY_INLINE
#else
#define CAUSEWAY_DECL template <class...>
#define CAUSEWAY_INLINE inline
#endif

#define CAUSEWAY_ALWAYS_INLINE inline __attribute__((always_inline))
#define CAUSEWAY_NOINLINE __attribute__((noinline))

#if defined(__CUDACC__)
#define CAUSEWAY_HD __host__ __device__
#else
#define CAUSEWAY_HD
#endif

#endif  // CAUSEWAY_CONFIG_CONFIG_HPP

// ---- causeway/core/clock.hpp ----
#ifndef CAUSEWAY_CORE_CLOCK_HPP
#define CAUSEWAY_CORE_CLOCK_HPP

// Time as a dependency. Nothing in the library reads a clock but through these types, so that a simulated cluster can run
// on virtual time.

#include <chrono>
#include <concepts>
#include <memory>

namespace causeway { inline namespace CAUSEWAY_ABI {

using duration = std::chrono::nanoseconds;

/// A moment on some clock, as nanoseconds since an arbitrary start. Moments of different clocks do not compare.
struct time_point {
  duration since_start{0};

  friend constexpr auto operator<=>(const time_point&, const time_point&) = default;
  friend constexpr time_point operator+(time_point t, duration d) { return {t.since_start + d}; }
  friend constexpr duration operator-(time_point a, time_point b) { return a.since_start - b.since_start; }
};

/// A deadline that never comes.
inline constexpr time_point no_deadline{duration::max()};

constexpr double seconds(duration d) noexcept { return std::chrono::duration<double>(d).count(); }

template <class C>
concept Clock = requires(C& c) {
  { c.now() } -> std::same_as<time_point>;
};

/// The monotonic clock of the machine.
struct steady_clock {
  time_point now() const {
    return {std::chrono::duration_cast<duration>(std::chrono::steady_clock::now().time_since_epoch())};
  }
};

/// Any clock, held by value. Copies share the clock. Thread-safe if the clock is.
class any_clock {
 public:
  any_clock() : any_clock(steady_clock{}) {}

  template <class C>
    requires(!std::same_as<C, any_clock>)
  &&Clock<C>  // in this order: the concept asks for moves of C
      explicit any_clock(C clock)
      : state_{std::make_shared<C>(std::move(clock))},
  now_{[](void* c) { return static_cast<C*>(c)->now(); }} {}

  time_point now() const { return now_(state_.get()); }

 private:
  std::shared_ptr<void> state_;
  time_point (*now_)(void*);
};

static_assert(Clock<steady_clock> && Clock<any_clock>);

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_CLOCK_HPP

// ---- causeway/core/error.hpp ----
#ifndef CAUSEWAY_CORE_ERROR_HPP
#define CAUSEWAY_CORE_ERROR_HPP

// What can go wrong for reasons outside the program, as a value. Numbers are stable and match docs/reference/errors.md.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

enum class errc : std::uint16_t {
  invalid_argument = 1,  ///< an option or shape that cannot work
  not_found = 2,         ///< a file, section or peer that is not there
  io_failed = 3,         ///< the operating system refused a read or write
  disk_full = 4,         ///< no space left
  corrupt = 5,           ///< bytes that fail their checksum or their format
  version_mismatch = 6,  ///< written or spoken by another format or protocol version
  timeout = 7,           ///< a deadline passed
  peer_lost = 8,         ///< the connection to a peer ended
  protocol = 9,          ///< a peer said something that the protocol does not allow
  wrong_run = 10,        ///< the other side belongs to another run
  wrong_model = 11,      ///< the other side trains another model or with other options
  wrong_parent = 12,     ///< an update based on another committed state
  diverged = 13,         ///< replicas that must be identical are not
  address_in_use = 14,   ///< a port that somebody else listens on
  unreachable = 15,      ///< nobody answers at an address
  too_large = 16,        ///< a length beyond the limit
  non_finite = 17,       ///< NaN or infinity where a number is needed
  cancelled = 18,        ///< stopped on request
  bad_text = 19,         ///< text that is empty, too short or not UTF-8
  unsupported = 20,      ///< this build or machine cannot do it
  out_of_memory = 21,    ///< an allocation failed
  device_lost = 22,      ///< an accelerator stopped answering
};

/// The name of a code, as in docs/reference/errors.md.
constexpr std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument: return "invalid_argument";
    case errc::not_found: return "not_found";
    case errc::io_failed: return "io_failed";
    case errc::disk_full: return "disk_full";
    case errc::corrupt: return "corrupt";
    case errc::version_mismatch: return "version_mismatch";
    case errc::timeout: return "timeout";
    case errc::peer_lost: return "peer_lost";
    case errc::protocol: return "protocol";
    case errc::wrong_run: return "wrong_run";
    case errc::wrong_model: return "wrong_model";
    case errc::wrong_parent: return "wrong_parent";
    case errc::diverged: return "diverged";
    case errc::address_in_use: return "address_in_use";
    case errc::unreachable: return "unreachable";
    case errc::too_large: return "too_large";
    case errc::non_finite: return "non_finite";
    case errc::cancelled: return "cancelled";
    case errc::bad_text: return "bad_text";
    case errc::unsupported: return "unsupported";
    case errc::out_of_memory: return "out_of_memory";
    case errc::device_lost: return "device_lost";
  }
  return "unknown";
}

/// One failure: a code, whom or what it concerns ("peer 3", "run/step-000120.ckpt"), and a sentence that says what
/// happened and what to do about it.
struct error {
  /// No peer's rank.
  static constexpr std::uint32_t nobody = UINT32_MAX;

  errc code = errc::invalid_argument;
  std::string where;
  std::string message;
  /// Of an exchange: the rank of the peer that sent what cannot be used, where this peer has seen that itself.
  std::uint32_t culprit = nobody;

  /// One line for a person: "where: message [code]".
  [[nodiscard]] std::string text() const {
    std::string line = where.empty() ? message : where + ": " + message;
    line += " [";
    line += to_string(code);
    line += ']';
    return line;
  }
};

/// Shorthand for `return fail(errc::corrupt, file, "...")`.
[[nodiscard]] inline error fail(errc code, std::string where, std::string message) {
  return {code, std::move(where), std::move(message)};
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_ERROR_HPP

// ---- causeway/core/concepts.hpp ----
#ifndef CAUSEWAY_CORE_CONCEPTS_HPP
#define CAUSEWAY_CORE_CONCEPTS_HPP

// What <concepts> asks of a type, asked of the language instead of <type_traits>: no class is instantiated for an answer.
// std::movable instantiates some forty for each type, std::convertible_to ten for each pair: together a sixth of all that
// including the presets instantiated.

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Can be moved into a new object, and into an old one.
template <class T>
concept Movable = requires(T from, T& to) {
  T(static_cast<T&&>(from));
  to = static_cast<T&&>(from);
};

/// Can be copied likewise, besides.
template <class T>
concept Copyable = Movable<T> && requires(const T& from, T& to) {
  T(from);
  to = from;
};

template <class T>
concept DefaultInitializable = requires {
  T{};
};

template <class From, class To>
concept ConvertibleTo = requires(From (&make)(), void (&take)(To)) {
  take(make());
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_CONCEPTS_HPP

// ---- causeway/core/metrics.hpp ----
#ifndef CAUSEWAY_CORE_METRICS_HPP
#define CAUSEWAY_CORE_METRICS_HPP

// What a run says about itself. The library never prints: it hands records to a sink, which is silent by default.

#include <functional>

namespace causeway { inline namespace CAUSEWAY_ABI {

enum class severity : std::uint8_t {
  debug,
  info,
  warning,
  waiting,  ///< a warning: why this peer does not go on
  error
};

/// Where messages for people go. Copyable; may be called from the trainer's thread and from the transport's.
class log_sink {
 public:
  using function = std::function<void(severity, std::string_view)>;

  log_sink() = default;
  explicit log_sink(function f) : function_{std::move(f)} {}

  void operator()(severity level, std::string_view text) const {
    if (function_) function_(level, text);
  }

 private:
  function function_;
};

/// Bytes and frames that crossed the sockets of one transport, headers included.
struct traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_rejected = 0;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_METRICS_HPP

// ---- causeway/core/result.hpp ----
#ifndef CAUSEWAY_CORE_RESULT_HPP
#define CAUSEWAY_CORE_RESULT_HPP

// A value or an error. Our own type rather than std::expected, also where that exists, so that the ABI does not depend on
// the language mode, and a union by hand rather than std::variant, which costs a compiler several times as much for each T.
// Nothing in the library throws for a reason that the network, a disk or a peer can cause.

#include <optional>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// A `T`, or the `error` that prevented it. Reading the wrong side is a precondition violation.
template <class T>
class [[nodiscard]] result {
 public:
  using value_type = T;

  result(T value) : has_value_{true}, value_{std::move(value)} {}                     // NOLINT: converting on purpose
  result(causeway::error failure) : has_value_{false}, error_{std::move(failure)} {}  // NOLINT

  result(const result& other) requires std::is_copy_constructible_v<T> : has_value_{other.has_value_} { take(other); }
  result(result&& other) noexcept : has_value_{other.has_value_} { take(std::move(other)); }
  result& operator=(result other) noexcept {
    drop();
    has_value_ = other.has_value_;
    take(std::move(other));
    return *this;
  }
  ~result() { drop(); }

  [[nodiscard]] bool has_value() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & { return check(), value_; }
  [[nodiscard]] const T& value() const& { return check(), value_; }
  [[nodiscard]] T&& value() && { return check(), std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] causeway::error& error() & { return check_failed(), error_; }
  [[nodiscard]] const causeway::error& error() const& { return check_failed(), error_; }
  [[nodiscard]] causeway::error&& error() && { return check_failed(), std::move(error_); }

  [[nodiscard]] T value_or(T fallback) const& { return has_value() ? value() : std::move(fallback); }

  /// `f(value)`, itself a result; or the error unchanged.
  template <class F>
  auto and_then(F&& f) && -> std::invoke_result_t<F, T&&> {
    if (!has_value()) return std::move(*this).error();
    return std::invoke(std::forward<F>(f), std::move(*this).value());
  }

  /// `f(value)` wrapped into a result; or the error unchanged.
  template <class F>
  auto transform(F&& f) && -> result<std::invoke_result_t<F, T&&>> {
    if (!has_value()) return std::move(*this).error();
    return std::invoke(std::forward<F>(f), std::move(*this).value());
  }

 private:
  void check() const { CAUSEWAY_EXPECT(has_value()); }
  void check_failed() const { CAUSEWAY_EXPECT(!has_value()); }

  /// Constructs the side that `has_value_` names, which `other` has.
  template <class Other>
  void take(Other&& other) {
    if (has_value_) {
      std::construct_at(&value_, std::forward<Other>(other).value_);
    } else {
      std::construct_at(&error_, std::forward<Other>(other).error_);
    }
  }
  void drop() noexcept {
    if (has_value_) {
      std::destroy_at(&value_);
    } else {
      std::destroy_at(&error_);
    }
  }

  bool has_value_;
  union {
    T value_;
    causeway::error error_;
  };
};

/// Success, or an error.
template <>
class [[nodiscard]] result<void> {
 public:
  using value_type = void;

  result() = default;
  result(causeway::error failure) : error_{std::move(failure)} {}  // NOLINT: converting on purpose

  [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const { CAUSEWAY_EXPECT(has_value()); }

  [[nodiscard]] causeway::error& error() & { return check_failed(), *error_; }
  [[nodiscard]] const causeway::error& error() const& { return check_failed(), *error_; }
  [[nodiscard]] causeway::error&& error() && { return check_failed(), std::move(*error_); }

 private:
  void check_failed() const { CAUSEWAY_EXPECT(!has_value()); }

  std::optional<causeway::error> error_;
};

}}  // namespace causeway::CAUSEWAY_ABI

/// Returns the error of `expression` from the enclosing function, if it is one.
#define CAUSEWAY_TRY(...)                                                                                     \
  do {                                                                                                        \
    if (auto causeway_outcome = (__VA_ARGS__); !causeway_outcome) return std::move(causeway_outcome).error(); \
  } while (false)

#define CAUSEWAY_JOIN_(a, b) a##b
#define CAUSEWAY_JOIN(a, b) CAUSEWAY_JOIN_(a, b)
#define CAUSEWAY_ASSIGN_(name, declaration, ...) \
  auto name = (__VA_ARGS__);                     \
  if (!name) return std::move(name).error();     \
  declaration = std::move(name).value()

/// `CAUSEWAY_ASSIGN(auto x, f())`: declares `x` from the value of a result, or returns its error.
#define CAUSEWAY_ASSIGN(declaration, ...) \
  CAUSEWAY_ASSIGN_(CAUSEWAY_JOIN(causeway_result_, __LINE__), declaration, __VA_ARGS__)

#endif  // CAUSEWAY_CORE_RESULT_HPP

// ---- causeway/net/transport.hpp ----
#ifndef CAUSEWAY_NET_TRANSPORT_HPP
#define CAUSEWAY_NET_TRANSPORT_HPP

// What policies and collectives need of a network: start a send, start a receive, wait with a deadline. Real sockets, an
// in-process network and the simulator model the same concept, and `any_transport` holds any of them by value, so that the
// very same trainer runs on all three.

#include <cstddef>
#include <span>

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

#endif  // CAUSEWAY_NET_TRANSPORT_HPP

// ---- causeway/net/impl/transport.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_TRANSPORT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL result<std::size_t> solo_transport::wait(operation, time_point) {
  return fail(errc::peer_lost, "solo transport", "there is no other peer in this run");
}

CAUSEWAY_DECL any_transport::any_transport() : any_transport(solo_transport{}) {}

CAUSEWAY_DECL operation any_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return model_->send(to, id, bytes);
}

CAUSEWAY_DECL operation any_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return model_->receive(from, id, buffer);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_TRANSPORT_IPP
#endif

// ---- causeway/sim/options.hpp ----
#ifndef CAUSEWAY_SIM_OPTIONS_HPP
#define CAUSEWAY_SIM_OPTIONS_HPP

// What a simulated cluster is made of, as plain values: hosts, the lines between them, and the rules that hold for all.

#include <cmath>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

namespace detail {

/// Whole nanoseconds; `seconds` at most some 290 years.
inline duration from_seconds(double seconds) { return duration{std::llround(seconds * 1e9)}; }

}  // namespace detail

/// A host's place in its world: 0, 1, 2, ... in the order of add_host.
using host_index = std::uint32_t;
inline constexpr host_index no_host = UINT32_MAX;

/// A rate without a limit.
inline constexpr double unlimited = std::numeric_limits<double>::infinity();

struct host_options {
  std::string name{};               ///< part of its address; none: "host-<index>"
  double speed = 1;                 ///< process::compute takes 1/speed of its nominal time
  double up_bytes_per_s = 125e6;    ///< shared by everything that it sends
  double down_bytes_per_s = 125e6;  ///< shared by everything that it receives
  std::uint32_t region = 0;         ///< see world::set_region_link
};

/// One direction between two hosts.
struct link_options {
  duration latency = std::chrono::milliseconds{1};  ///< one way
  double bytes_per_s = unlimited;                   ///< of one connection
  duration jitter{0};                               ///< adds a uniform draw from [0, jitter]; never reorders a connection
  /// Part of the packets (1460 bytes) that get lost. A lost one costs one more round trip, at least 10 ms, and a
  /// connection carries at most 1.22 · 1460 bytes / (RTT · √loss) per stream (Mathis et al. 1997).
  double loss = 0;
  std::uint32_t streams = 1;  ///< TCP streams that a connection stands for; only the cap by `loss` knows them
};

/// What can befall a message on a line; each with a chance of its own, see world::set_mishap.
enum class mishap : std::uint8_t {
  damage,   ///< bits flip: the receiver's digest does not fit, and it ends the link
  alter,    ///< data arrives whole, with another value in it: of a broken machine, or of one that lies
  repeat,   ///< a control message comes a second time, up to 5 s later, after a reconnect on the new connection
  reorder,  ///< a control message is held up for up to 200 ms and overtaken, after a reconnect as with repeat
};
inline constexpr std::size_t mishaps = 4;

struct world_options {
  std::uint64_t seed = 1;
  link_options link{};                                        ///< between hosts that no other rule is about
  std::size_t header_bytes = 80;                              ///< what every message adds on the wire
  std::size_t piece_bytes = std::size_t{64} << 10U;           ///< transfers are cut into these, and take turns
  std::size_t socket_buffer = std::size_t{4} << 20U;          ///< what the kernel of a stopped process takes in
  std::size_t kept_bytes = std::size_t{64} << 20U;            ///< per fabric: messages kept before their receive is started
  duration connect_delay_min = std::chrono::milliseconds{1};  ///< on top of the round trips of making a connection
  duration connect_delay_max = std::chrono::milliseconds{11};
  duration connect_timeout = std::chrono::seconds{10};  ///< then a dial that got no answer is unreachable
  double repeat_after_reconnect = 0;                    ///< chance that a new connection begins with the last control
                                                        ///< messages of the one before, once more
  std::size_t stack_bytes = std::size_t{256} << 10U;    ///< of each process
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_OPTIONS_HPP

// ---- causeway/sim/links.hpp ----
#ifndef CAUSEWAY_SIM_LINKS_HPP
#define CAUSEWAY_SIM_LINKS_HPP

// The lines between hosts, one for each direction: what they are like, and what is wrong with them right now. A line is
// made when it is first asked for, from the most specific rule: set for this pair, set for the two regions, the default.

#include <array>
#include <map>
#include <unordered_map>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

struct link {
  link_options options;
  double slowed_to = unlimited;  ///< bytes/s, while somebody slows it down
  std::uint32_t blocks = 0;      ///< how many faults black-hole it; nothing arrives unless 0
  time_point blocked_since;
  std::array<double, mishaps> chances{};  ///< of each mishap, for a message
  std::uint32_t from_region = 0;
  std::uint32_t to_region = 0;
  bool own_rule = false;

  [[nodiscard]] bool blocked() const noexcept { return blocks != 0; }
  [[nodiscard]] double chance_of(mishap m) const noexcept { return chances[static_cast<std::size_t>(m)]; }
};

class link_map {
 public:
  CAUSEWAY_DECL explicit link_map(const link_options& otherwise);

  CAUSEWAY_DECL void add_host(std::uint32_t region);

  /// The line from `from` to `to`. It stays where it is.
  CAUSEWAY_DECL link& between(host_index from, host_index to);

  CAUSEWAY_DECL void set(host_index from, host_index to, const link_options& options);

  CAUSEWAY_DECL void set_region(std::uint32_t from, std::uint32_t to, const link_options& options);

  CAUSEWAY_DECL void slow(host_index from, host_index to, double bytes_per_s);

  /// Grows with every change of a line's options: what was worked out from them is out of date.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  void changed() noexcept { ++version_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] const link_options& rule(const link& l) const;

  link_options otherwise_;
  std::vector<std::uint32_t> regions_;
  std::unordered_map<std::uint64_t, link> links_;  // never walked where the order could show
  std::map<std::pair<std::uint32_t, std::uint32_t>, link_options> region_rules_;
  std::uint64_t version_ = 1;
};

/// The time of one packet there and one back, without jitter.
inline duration round_trip(const link& there, const link& back) { return there.options.latency + back.options.latency; }

/// What one connection can carry on `there`, by the line's own limit and by its losses. Bytes/s.
CAUSEWAY_DECL double connection_cap(const link& there, const link& back);

/// How long `bytes` take at `bytes_per_s`, to the nanosecond.
CAUSEWAY_DECL duration transfer_time(double bytes, double bytes_per_s);

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_LINKS_HPP

// ---- causeway/sim/impl/links.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_LINKS_IPP
#define CAUSEWAY_SIM_IMPL_LINKS_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL link_map::link_map(const link_options& otherwise) : otherwise_{otherwise} {}

CAUSEWAY_DECL void link_map::add_host(std::uint32_t region) { regions_.push_back(region); }

CAUSEWAY_DECL link& link_map::between(host_index from, host_index to) {
  const auto [at, made] = links_.try_emplace(std::uint64_t{from} << 32U | to);
  if (made) {
    at->second.from_region = regions_[from];
    at->second.to_region = regions_[to];
    at->second.options = rule(at->second);
  }
  return at->second;
}

CAUSEWAY_DECL void link_map::set(host_index from, host_index to, const link_options& options) {
  link& l = between(from, to);
  l.own_rule = true;
  l.options = options;
  ++version_;
}

CAUSEWAY_DECL void link_map::set_region(std::uint32_t from, std::uint32_t to, const link_options& options) {
  region_rules_[{from, to}] = options;
  for (auto& [pair, l] : links_) {
    if (!l.own_rule) l.options = rule(l);
  }
  ++version_;
}

CAUSEWAY_DECL void link_map::slow(host_index from, host_index to, double bytes_per_s) {
  between(from, to).slowed_to = bytes_per_s;
  ++version_;
}

CAUSEWAY_DECL const link_options& link_map::rule(const link& l) const {
  const auto found = region_rules_.find({l.from_region, l.to_region});
  return found == region_rules_.end() ? otherwise_ : found->second;
}

CAUSEWAY_DECL double connection_cap(const link& there, const link& back) {
  double cap = std::min(there.options.bytes_per_s, there.slowed_to);
  if (there.options.loss > 0) {
    const double rtt = std::max(seconds(round_trip(there, back)), 1e-4);
    cap = std::min(cap, there.options.streams * 1.22 * 1460.0 / (rtt * std::sqrt(there.options.loss)));
  }
  return cap;
}

CAUSEWAY_DECL duration transfer_time(double bytes, double bytes_per_s) {
  return duration{bytes_per_s == unlimited ? 0 : std::llround(bytes / bytes_per_s * 1e9)};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_LINKS_IPP
#endif

// ---- causeway/sim/connection.hpp ----
#ifndef CAUSEWAY_SIM_CONNECTION_HPP
#define CAUSEWAY_SIM_CONNECTION_HPP

// Connections as the kernels of two hosts know them, and what travels on them. Each way has three lanes (control, data,
// bulk): pieces of a lane keep their order, and an earlier lane goes first. A piece of a message carries only its size; the
// message itself rides on its last piece.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

// First in, first out, in one block of memory that grows by doubling; unused it owns nothing. A simulated network has
// millions of queues, most of them never used and the others for a message at a time: std::deque would spend half a
// kilobyte on each.

template <class T>
class queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void push(T value) {
    if (size_ == places_.size()) grow();
    places_[(first_ + size_++) & (places_.size() - 1)] = std::move(value);
  }

  [[nodiscard]] T& front() {
    CAUSEWAY_EXPECT(size_ != 0);
    return places_[first_];
  }

  T pop() {
    T value = std::move(front());
    places_[first_] = T{};
    first_ = (first_ + 1) & (places_.size() - 1);
    --size_;
    return value;
  }

  /// Frees the memory too.
  void clear() { *this = queue{}; }

  /// Takes out what `unwanted(value)` says, the others keep their order.
  template <class F>
  void erase_if(F&& unwanted) {
    for (std::size_t n = size_; n != 0; --n) {
      T value = pop();
      if (!unwanted(value)) push(std::move(value));
    }
  }

 private:
  void grow() {
    std::vector<T> bigger(places_.empty() ? 1 : 2 * places_.size());
    for (std::size_t i = 0; i < size_; ++i) bigger[i] = std::move(places_[(first_ + i) & (places_.size() - 1)]);
    places_ = std::move(bigger);
    first_ = 0;
  }

  std::vector<T> places_;  // as many as a power of two
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

// Messages between simulated hosts, and where used ones wait for their next use: their memory would otherwise go back to
// the operating system and come from it again in every round, which cost more than all the rest of the simulator.

enum class lane : std::uint8_t { control, data, bulk };
inline constexpr std::size_t lanes = 3;

enum class content : std::uint8_t { hello, welcome, refusal, control, data, goodbye };

/// One message on its way.
struct sent_message {
  content what = content::control;
  lane way = lane::control;
  bool aborted = false;                  ///< the sender gave it up after a part of it
  std::uint32_t operation = UINT32_MAX;  ///< of the sender; to be told when the last piece is on the wire
  net::message_id id{};                  ///< of data
  std::uint64_t from_id = 0;             ///< of hello and welcome: who speaks
  std::vector<std::byte> bytes{};
  std::uint64_t wire_bytes = 0;
  std::uint64_t sent = 0;
};

class message_pool;

/// Takes a message back to its pool; without one, frees it.
struct message_return {
  message_pool* pool = nullptr;
  CAUSEWAY_DECL void operator()(sent_message* p) const;
};
using sent_message_ptr = std::unique_ptr<sent_message, message_return>;

/// Must outlive its messages.
class message_pool {
 public:
  message_pool() = default;
  message_pool(const message_pool&) = delete;
  message_pool& operator=(const message_pool&) = delete;

  /// An empty message; its `bytes` may have room already.
  CAUSEWAY_DECL [[nodiscard]] sent_message_ptr make(content what, lane way);

  CAUSEWAY_DECL void take_back(std::unique_ptr<sent_message> p);

  /// Bytes of memory that wait.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_; }

 private:
  static constexpr std::size_t most_messages = 4096;
  static constexpr std::size_t most_bytes = std::size_t{16} << 20U;

  std::vector<std::unique_ptr<sent_message>> free_;
  std::size_t held_ = 0;
};

struct piece {
  std::uint64_t bytes = 0;
  duration spread{0};     ///< from its first bit to its last
  sent_message_ptr last;  ///< the message, if this is its last piece
};

/// One end of a connection: which one, and which side. Never names a later connection.
struct end_ref {
  std::uint64_t value = 0;  ///< slot (32 bits), generation (31), side (1); 0 names none

  [[nodiscard]] static end_ref make(std::uint32_t slot, std::uint32_t generation, unsigned side) {
    return {std::uint64_t{slot} << 32U | std::uint64_t{generation} << 1U | side};
  }
  [[nodiscard]] std::uint32_t slot() const noexcept { return static_cast<std::uint32_t>(value >> 32U); }
  [[nodiscard]] std::uint32_t generation() const noexcept { return static_cast<std::uint32_t>(value) >> 1U; }
  [[nodiscard]] unsigned side() const noexcept { return static_cast<unsigned>(value & 1U); }
  [[nodiscard]] end_ref other() const noexcept { return {value ^ 1U}; }
  friend bool operator==(const end_ref&, const end_ref&) = default;
};

/// Whose sockets they are. Called only while the host's process can run; never for an end that it closed itself.
class socket_owner {
 public:
  virtual ~socket_owner() = default;
  /// A dial succeeded: `end` is ours. `tag` is what the dial was given.
  virtual void on_connected(end_ref end, std::uint64_t tag) = 0;
  virtual void on_refused(std::uint64_t tag, const error& why) = 0;
  virtual void on_message(end_ref end, sent_message_ptr message) = 0;
  virtual void on_closed(end_ref end, const error& why) = 0;
  /// The last piece of a message is on the wire. Comes at any time, also from inside a call of ours.
  virtual void on_sent(end_ref end, std::uint32_t operation) = 0;
};

/// One way of a connection.
struct flow {
  enum class state : std::uint8_t { idle, ready, paced };  ///< ready: queued at the uplink; paced: an event will go on

  host_index from = no_host;
  host_index to = no_host;
  link* there = nullptr;
  link* back = nullptr;
  std::array<queue<sent_message_ptr>, lanes> waiting;
  queue<piece> wire;      ///< between uplink and downlink, in the order of arrival
  queue<piece> held;      ///< arrived where the line is a black hole
  queue<piece> arriving;  ///< in the downlink
  queue<piece> unread;    ///< in the kernel of a stopped process
  state now = state::idle;
  bool paused = false;     ///< the receiver has no room for data
  bool releasing = false;  ///< an event will let `held` out
  time_point last_arrival;
  time_point last_delivery;
  time_point next_start;          ///< no piece starts before: the connection's own rate
  std::uint64_t outstanding = 0;  ///< bytes on their way and not acknowledged
  std::uint64_t unread_bytes = 0;
  std::uint64_t unacknowledged = 0;  ///< taken in without an acknowledgement, for want of room or of a way back
  double cap = unlimited;            ///< bytes/s; from here on worked out from the line, as of `version`
  std::uint64_t window = 0;
  std::uint64_t version = 0;
};

struct connection {
  struct end {
    socket_owner* owner = nullptr;
    bool open = false;
  };

  std::uint32_t generation = 1;
  bool used = false;
  bool broken = false;  ///< nothing travels any more but the news of it
  bool silent = false;  ///< one side lost power: the other hears nothing
  std::string why;      ///< what the side that ended it gave as reason
  std::array<end, 2> ends;
  std::array<flow, 2> flows;  ///< [s]: from ends[s] to the other
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_CONNECTION_HPP

// ---- causeway/sim/impl/connection.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_CONNECTION_IPP
#define CAUSEWAY_SIM_IMPL_CONNECTION_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL sent_message_ptr message_pool::make(content what, lane way) {
  if (free_.empty()) free_.push_back(std::make_unique<sent_message>());
  sent_message_ptr p{free_.back().release(), message_return{this}};
  free_.pop_back();
  held_ -= p->bytes.capacity();
  p->what = what;
  p->way = way;
  return p;
}

CAUSEWAY_DECL void message_pool::take_back(std::unique_ptr<sent_message> p) {
  std::vector<std::byte> room = std::move(p->bytes);
  if (free_.size() >= most_messages || held_ + room.capacity() > most_bytes) return;
  room.clear();
  held_ += room.capacity();
  *p = sent_message{};
  p->bytes = std::move(room);
  free_.push_back(std::move(p));
}

CAUSEWAY_DECL void message_return::operator()(sent_message* p) const {
  std::unique_ptr<sent_message> owned{p};
  if (pool != nullptr) pool->take_back(std::move(owned));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_CONNECTION_IPP
#endif

// ---- causeway/net/fabric.hpp ----
#ifndef CAUSEWAY_NET_FABRIC_HPP
#define CAUSEWAY_NET_FABRIC_HPP

// A network whose peers come and go: what an elastic membership needs beyond net/transport.hpp. Connections are made and
// lost while the run goes on; small control messages reach a handler even while the trainer computes; big messages travel
// as on a Transport. TCP and the simulator are its two implementations, so that the very same membership runs on both.
//
// A `link` is the place of one peer in this fabric, numbered from 0 as peers are met. A connection that breaks and is made
// again is the same link. A fabric that has met thousands may give the link of one that is gone to a new peer: on_up names
// the peer each time.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Who a peer is during the whole run, across restarts and addresses. 0 names nobody.
using peer_id = std::uint64_t;

/// A control message has at most this many bytes.
inline constexpr std::size_t max_post_bytes = std::size_t{512} << 10U;

/// What a fabric tells its owner. Events come one at a time, never two at once, with the fabric's lock held, on whatever
/// thread found them; they must not block. All calls of `fabric` that are marked "from events" may be made inside; they
/// never call back at once.
class fabric_events {
 public:
  virtual ~fabric_events() = default;
  /// A connection to `id` stands. `address` is where that peer can be dialled by others. Comes again after a down.
  virtual void on_up(peer_index link, peer_id id, const std::string& address) = 0;
  /// The connection ended: closed, reset, or given up. Its operations have ended with errc::peer_lost.
  virtual void on_down(peer_index link, const error& why) = 0;
  /// Nobody answered a dial, or the answer was a refusal.
  virtual void on_unreachable(const std::string& address, const error& why) = 0;
  /// A control message came. In the order of posting, as long as the connection stands.
  virtual void on_control(peer_index link, std::span<const std::byte> message) = 0;
  /// The time asked for with wake_at has come.
  virtual void on_wake() = 0;
};

class fabric {
 public:
  virtual ~fabric() = default;

  /// This peer, and where others can dial it.
  [[nodiscard]] virtual peer_id id() const = 0;
  [[nodiscard]] virtual std::string address() const = 0;

  /// Who gets the events; once, before the first dial. nullptr: no more events from now on. Connections that others make
  /// before it wait for it.
  virtual void attach(fabric_events* events) = 0;

  // ---- from events, and inside `locked` ------------------------------------------------------------------------------

  [[nodiscard]] virtual time_point now() const = 0;
  /// Starts to connect; tells on_up or on_unreachable. Nothing happens if the connection stands or is being made. Dialling
  /// ourselves is unreachable. Two peers that dial each other at once end with one connection.
  virtual void dial(const std::string& address) = 0;
  /// Ends a connection; on_down follows later with `why`, on the other side too. A new one may be made afterwards.
  virtual void close(peer_index link, const std::string& why) = 0;
  [[nodiscard]] virtual bool is_up(peer_index link) const = 0;
  /// Sends a control message, at most max_post_bytes. Lost without notice where the connection is down or breaks: on_down
  /// tells. `bulk` messages let the others and data pass first.
  virtual void post(peer_index link, std::vector<std::byte> message, bool bulk = false) = 0;
  /// Asks for on_wake at `when`; replaces what was asked for before. no_deadline: never.
  virtual void wake_at(time_point when) = 0;
  /// Ends all data operations of epochs before `epoch`, of its kind (net/epochs.hpp), with errc::cancelled, forgets kept
  /// messages of those epochs, and from now on drops and counts (frames_rejected) what still arrives of them.
  virtual void cancel_before(std::uint32_t epoch) = 0;

  /// Runs `work` without the lock, beside everything else: for what may block for seconds, such as fsync. What is given
  /// runs in the order of the calls, one at a time. `then` comes as an event, while somebody is attached; attach(nullptr)
  /// returns when no work is under way any more. The destructor lets all of it end.
  virtual void aside(std::function<void()> work, std::function<void()> then) = 0;

  // ---- for the trainer's thread ---------------------------------------------------------------------------------------

  /// As in net/transport.hpp, with links for peers.
  virtual operation send(peer_index link, const message_id& id, std::span<const std::byte> bytes) = 0;
  virtual operation receive(peer_index link, const message_id& id, std::span<std::byte> buffer) = 0;
  virtual result<std::size_t> wait(operation op, time_point deadline) = 0;
  /// Also inside `locked`, and in the question that `block` asks.
  [[nodiscard]] virtual bool done(operation op) const = 0;

  /// Runs `what` with the lock held: no event comes meanwhile.
  virtual void locked(const std::function<void()>& what) = 0;
  /// Blocks until `done` says so; asked with the lock held, now and after every event. False: the deadline came first.
  /// errc::cancelled: the peer was asked to stop.
  virtual result<bool> block(const std::function<bool()>& done, time_point deadline) = 0;

  [[nodiscard]] virtual traffic stats() const = 0;
  /// One line per unfinished data operation: whom it concerns, since when, how far it is. From any thread.
  [[nodiscard]] virtual std::string describe_waits() const = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FABRIC_HPP

// ---- causeway/core/rng.hpp ----
#ifndef CAUSEWAY_CORE_RNG_HPP
#define CAUSEWAY_CORE_RNG_HPP

// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the n-th number of a (seed, stream) pair is the same on
// every peer, on every machine, whatever was drawn elsewhere. The whole state is three integers.

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Philox4x32 with 10 rounds: four 32-bit words from a 128-bit counter and a 64-bit key.
CAUSEWAY_HD constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                          std::uint64_t key) noexcept {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32U) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32U) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

/// Draws from one stream of one seed. A regular value; not safe to share between threads.
class rng {
 public:
  using result_type = std::uint64_t;

  constexpr explicit rng(std::uint64_t seed = 0, std::uint64_t stream = 0) noexcept : seed_{seed}, stream_{stream} {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~std::uint64_t{0}; }
  constexpr result_type operator()() noexcept { return next(); }

  /// 64 uniform bits.
  constexpr std::uint64_t next() noexcept {
    const auto words = philox({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(position_ >> 32U),
                               static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32U)},
                              seed_);
    ++position_;
    return (std::uint64_t{words[1]} << 32U) | words[0];
  }

  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform() noexcept { return static_cast<float>(next() >> 40U) * 0x1.0p-24F; }

  /// Uniform in [0, bound), without bias; `bound` must be positive.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t limit = max() - max() % bound;
    std::uint64_t draw = next();
    while (draw >= limit) draw = next();
    return draw % bound;
  }

  /// Standard normal, by the ziggurat of Marsaglia and Tsang (2000) with bits of their own for layer, sign and place
  /// (Doornik 2005). 98.8 % of the numbers come of one draw and one product, so that every machine has the same bits,
  /// whatever its logarithm is.
  CAUSEWAY_DECL float normal() noexcept;

  void serialize(auto& ar) { ar(seed_, stream_, position_); }

  friend constexpr bool operator==(const rng&, const rng&) = default;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t position_ = 0;
};

/// Puts `items` into a random order, each equally likely.
template <class Items>
constexpr void shuffle(Items& items, rng& draw) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[draw.below(i)]);
}

/// A stream number from a few integers, so that (purpose, epoch, peer) never collide by accident.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) noexcept {
  const auto words = philox({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32U),
                             static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32U)},
                            a);
  return (std::uint64_t{words[1]} << 32U) | words[0];
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_RNG_HPP

// ---- causeway/core/impl/rng.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_CORE_IMPL_RNG_IPP
#define CAUSEWAY_CORE_IMPL_RNG_IPP

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

/// The right ends of 256 layers of equal area under exp(-x^2 / 2), from the lowest: its first number is that area by its
/// height, its second where the tail begins.
// clang-format off
inline constexpr double normal_layers[] = {
    3.910757959524916, 3.654152885361009, 3.449278298561431, 3.3202447338398255, 3.2245750520478014, 3.147889289518001,
    3.0835261320021434, 3.0278377917695933, 2.978603279881843, 2.9343668672088876, 2.894121053613412, 2.8571387308732246,
    2.822877396826443, 2.7909211740019275, 2.760944005279986, 2.7326853590440114, 2.705933656123062, 2.680514643285745,
    2.6562830375767432, 2.6331163936315827, 2.6109105184888235, 2.5895759867082866, 2.569035452681844, 2.5492215503247833,
    2.530075232159854, 2.5115444416266945, 2.4935830412710467, 2.476149939670523, 2.459208374334705, 2.442725318200364,
    2.4266709849371466, 2.4110184139011195, 2.3957431197819274, 2.3808227951720857, 2.366237056717291, 2.3519672273791445,
    2.337996148796529, 2.3243080188711325, 2.310888250601372, 2.2977233489028634, 2.284800802724492, 2.2721089902283818,
    2.2596370951737876, 2.247375032947389, 2.235313384929921, 2.2234433400925107, 2.211756642884161, 2.2002455466112765,
    2.1889027716263607, 2.177721467740293, 2.1666951803543086, 2.1558178198767375, 2.145083634047889, 2.134487182846017,
    2.1240233156895236, 2.113687150686653, 2.1034740557148774, 2.093379631138792, 2.0833996939983046, 2.073530263518743,
    2.0637675478117323, 2.0541079316506523, 2.0445479652175313, 2.035084353729619, 2.025713947863854, 2.016433734906204,
    2.0072408305605287, 1.9981324713584196, 1.989106007617438, 1.9801588969004766, 1.9712886979336592, 1.962493064944363,
    1.9537697423846467, 1.9451165600086784, 1.9365314282756947, 1.9280123340526658, 1.9195573365931882,
    1.9111645637712533, 1.9028322085504292, 1.8945585256707047, 1.8863418285367828, 1.8781804862929958,
    1.8700729210712668, 1.8620176053996742, 1.8540130597602018, 1.8460578502851854, 1.8381505865828067, 1.830289919682757,
    1.8224745400938858, 1.8147031759662826, 1.8069745913508208, 1.7992875845497203, 1.7916409865521625,
    1.7840336595494415, 1.7764644955245228, 1.7689324149112686, 1.7614363653189102, 1.7539753203176716,
    1.7465482782817223, 1.7391542612859117, 1.7317923140529632, 1.724461502948045, 1.717160915017823, 1.7098896570713018,
    1.7026468547999232, 1.6954316519345616, 1.6882432094371953, 1.681080704725174, 1.673943330926125, 1.6668302961616654,
    1.6597408228581825, 1.652674147083056, 1.6456295179047824, 1.6386061967755476, 1.6316034569348736, 1.6246205828330347,
    1.6176568695730156, 1.6107116223698301, 1.6037841560260946, 1.5968737944227882, 1.5899798700241907,
    1.5831017233960292, 1.5762387027359064, 1.5693901634151237, 1.562555467531045, 1.5557339834691764, 1.5489250854741734,
    1.5421281532290019, 1.535342571441514, 1.5285677294377125, 1.521803020760998, 1.5150478427767147, 1.5083015962813116,
    1.5015636851154637, 1.4948335157804935, 1.4881104970574475, 1.4813940396281873, 1.4746835556978555,
    1.4679784586180795, 1.4612781625102755, 1.4545820818884103, 1.447889631280576, 1.441200224848724, 1.4345132760058923,
    1.427828197030256, 1.421144398675309, 1.4144612897754711, 1.407778276846399, 1.401094763679251, 1.394410150928141,
    1.3877238356899761, 1.3810352110758555, 1.3743436657731662, 1.367648583597476, 1.360949343033283, 1.354245316762635,
    1.3475358711805872, 1.340820365896404, 1.33409815321936, 1.3273685776279258, 1.3206309752210563, 1.3138846731502205,
    1.3071289890307312, 1.3003632303308372, 1.2935866937369478, 1.2867986644932436, 1.279998415713818, 1.2731852076653563,
    1.2663582870182295, 1.2595168860637143, 1.2526602218948972, 1.2457874955486272, 1.2388978911056874,
    1.2319905747461362, 1.2250646937565308, 1.2181193754854815, 1.211153726243699, 1.2041668301443815, 1.1971577478794415,
    1.190125515426692, 1.1830691426826867, 1.175987612015452, 1.168879876730833, 1.1617448594456115, 1.1545814503599277,
    1.147388505420849, 1.1401648443681514, 1.1329092486525338, 1.1256204592155334, 1.118297174119345, 1.1109380460135758,
    1.1035416794246398, 1.0961066278520215, 1.0886313906539797, 1.0811144097034038, 1.0735540657924363,
    1.0659486747621225, 1.0582964833306752, 1.05059566459093, 1.042844313144149, 1.035040439833441, 1.0271819660356458,
    1.0192667174654841, 1.0112924174399958, 1.003256679544673, 0.995156999635091, 0.9869907470990624, 0.9787551552942246,
    0.9704473110642244, 0.9620641432230406, 0.953602409881086, 0.9450586844681654, 0.9364293402865751, 0.9277105334020002,
    0.9188981836495906, 0.9099879534967185, 0.9009752244612218, 0.8918550707329416, 0.8826222295851656,
    0.8732710680888608, 0.8637955455533088, 0.8541891710081638, 0.8444449549091539, 0.8345553540863822,
    0.8245122087522921, 0.8143066701352152, 0.8039291169899713, 0.7933690588406233, 0.7826150233072331,
    0.7716544242245681, 0.7604734064301081, 0.7490566620178153, 0.7373872114342956, 0.7254461409099996,
    0.7132122851909759, 0.7006618411068151, 0.6877678927957885, 0.6744998228372938, 0.6608225742444197,
    0.6466957148949938, 0.6320722363860611, 0.6168969900077514, 0.6011046177559927, 0.5846167661063794,
    0.5673382570538188, 0.5491517023271651, 0.5299097206615582, 0.5094233296020918, 0.487443966139236,
    0.46363433679088223, 0.4375184022078717, 0.40838913461199117, 0.37512133287838056, 0.33573751921442524,
    0.2861745917920725, 0.2152418959848817, 0.0};
// clang-format on

}  // namespace detail

CAUSEWAY_DECL float rng::normal() noexcept {
  const auto curve = [](double x) { return std::exp(-0.5 * x * x); };
  const auto above_zero = [&] { return (static_cast<double>(next() >> 11U) + 0.5) * 0x1.0p-53; };
  for (;;) {
    const std::uint64_t bits = next();
    const double* const ends = detail::normal_layers + (bits & 0xFFU);
    const double sign = (bits & 0x100U) != 0 ? -1.0 : 1.0;
    const double x = static_cast<double>(bits >> 11U) * 0x1.0p-53 * ends[0];
    if (x < ends[1]) return static_cast<float>(sign * x);
    if (ends == detail::normal_layers) {
      double beyond = 0;
      double room = 0;
      do {
        beyond = -std::log(above_zero()) / ends[1];
        room = -2 * std::log(above_zero());
      } while (room <= beyond * beyond);
      return static_cast<float>(sign * (ends[1] + beyond));
    }
    const double height = curve(ends[0]) + above_zero() * (curve(ends[1]) - curve(ends[0]));
    if (height < curve(x)) return static_cast<float>(sign * x);
  }
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_IMPL_RNG_IPP
#endif

// ---- causeway/sim/host_clock.hpp ----
#ifndef CAUSEWAY_SIM_HOST_CLOCK_HPP
#define CAUSEWAY_SIM_HOST_CLOCK_HPP

// The clock of one simulated host: the world's time, as long as nothing is wrong with it. It may run fast or slow, and jump
// forward, as a virtual machine's does after a pause; like any steady clock it never goes back.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// Models Clock. Copies are one clock, and can be read when its world is gone.
class host_clock {
 public:
  /// `world`: the time of the world, which must not move the pointer.
  CAUSEWAY_DECL explicit host_clock(std::shared_ptr<const time_point> world);

  [[nodiscard]] time_point now() const noexcept { return local(*world_); }

  /// What it shows at a moment of the world, if nothing changes until then. Not before the last change.
  CAUSEWAY_DECL [[nodiscard]] time_point local(time_point world) const noexcept;

  /// The first moment of the world at which it shows `local` or more.
  CAUSEWAY_DECL [[nodiscard]] time_point world(time_point shown) const noexcept;

  /// From now on a second of the world is `rate` seconds here. Precondition: it is above 0.
  CAUSEWAY_DECL void set_rate(double rate);

  /// Precondition: not back.
  CAUSEWAY_DECL void jump(duration forward);

 private:
  struct state {
    time_point since;  ///< in the world: the last change
    time_point shown;  ///< here, at that moment
    double rate = 1;
  };

  [[nodiscard]] bool exact() const noexcept { return state_->rate == 1 && state_->since == state_->shown; }

  CAUSEWAY_DECL static duration scaled(duration d, double by) noexcept;

  CAUSEWAY_DECL void hold();

  std::shared_ptr<const time_point> world_;
  std::shared_ptr<state> state_ = std::make_shared<state>();
};
static_assert(Clock<host_clock>);

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_HOST_CLOCK_HPP

// ---- causeway/sim/impl/host_clock.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_HOST_CLOCK_IPP
#define CAUSEWAY_SIM_IMPL_HOST_CLOCK_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL host_clock::host_clock(std::shared_ptr<const time_point> world) : world_{std::move(world)} {}

CAUSEWAY_DECL time_point host_clock::local(time_point world) const noexcept {
  if (exact()) return world;
  return state_->shown + scaled(world - state_->since, state_->rate);
}

CAUSEWAY_DECL time_point host_clock::world(time_point shown) const noexcept {
  if (exact() || shown == no_deadline) return shown;
  if (shown <= state_->shown) return state_->since;
  const double nanoseconds = static_cast<double>((shown - state_->shown).count()) / state_->rate;
  if (nanoseconds > 4e18) return no_deadline;
  time_point when = state_->since + duration{static_cast<std::int64_t>(nanoseconds)};
  while (local(when) < shown) when = when + duration{1};
  return when;
}

CAUSEWAY_DECL void host_clock::set_rate(double rate) {
  CAUSEWAY_EXPECT(rate > 0);
  hold();
  state_->rate = rate;
}

CAUSEWAY_DECL void host_clock::jump(duration forward) {
  CAUSEWAY_EXPECT(forward >= duration{0});
  hold();
  state_->shown = state_->shown + forward;
}

CAUSEWAY_DECL duration host_clock::scaled(duration d, double by) noexcept {
  return by == 1 ? d : duration{static_cast<std::int64_t>(std::floor(static_cast<double>(d.count()) * by))};
}

CAUSEWAY_DECL void host_clock::hold() {
  const time_point shown = now();
  state_->since = *world_;
  state_->shown = shown;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_HOST_CLOCK_IPP
#endif

// ---- causeway/core/hash.hpp ----
#ifndef CAUSEWAY_CORE_HASH_HPP
#define CAUSEWAY_CORE_HASH_HPP

// A fast 64-bit checksum over bytes, the same on every machine. It finds torn files and replicas that differ; it is no
// defence against somebody who wants a collision.

#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

constexpr std::uint64_t hash_prime = 0x9E3779B97F4A7C15U;

constexpr std::uint64_t scramble(std::uint64_t x) noexcept {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

using hash_lanes = std::array<std::uint64_t, 8>;

/// Where the lanes begin.
constexpr hash_lanes first_lanes(std::uint64_t seed) noexcept {
  return {seed ^ 0x243F6A8885A308D3U, seed ^ 0x13198A2E03707344U, seed ^ 0xA4093822299F31D0U, seed ^ 0x082EFA98EC4E6C89U,
          seed ^ 0x452821E638D01377U, seed ^ 0xBE5466CF34E90C6CU, seed ^ 0xC0AC29B7C97C50DDU, seed ^ 0x3F84D5B5B5470917U};
}

/// What a lane makes of its word of a stripe.
constexpr std::uint64_t mixed_in(std::uint64_t lane, std::uint64_t word) noexcept {
  lane = (lane ^ word) * hash_prime;
  return lane ^ (lane >> 29U);
}

/// The checksum of the lanes and the number of bytes that they were fed.
constexpr std::uint64_t joined(const std::uint64_t (&lanes)[8], std::uint64_t length) noexcept {
  std::uint64_t h = length * hash_prime;
  for (const std::uint64_t lane : lanes) h = scramble(h ^ lane) + hash_prime;
  return scramble(h);
}

inline std::uint64_t load64(const std::byte* p) noexcept {
  std::uint64_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace detail

/// Feeds bytes piece by piece; `finish` gives the checksum of everything fed. The cut into pieces matters only if a piece's
/// length is not a multiple of 64 bytes (each piece is closed by its length).
class hasher {
 public:
  constexpr explicit hasher(std::uint64_t seed = 0) noexcept : lanes_{detail::first_lanes(seed)} {}

  hasher& add(std::span<const std::byte> bytes) noexcept {
    if (length_ % 64 != 0) lanes_[0] = detail::scramble(lanes_[0] ^ length_);  // closes a piece that ended inside a stripe
    std::size_t at = 0;
    auto lanes = lanes_;  // a copy that no pointer into `bytes` can point at, so that it stays in registers
    for (; at + 64 <= bytes.size(); at += 64) stripe(lanes, bytes.data() + at, std::make_index_sequence<8>{});
    if (at < bytes.size()) {
      std::array<std::byte, 64> tail{};
      std::memcpy(tail.data(), bytes.data() + at, bytes.size() - at);
      stripe(lanes, tail.data(), std::make_index_sequence<8>{});
    }
    lanes_ = lanes;
    length_ += bytes.size();
    return *this;
  }

  template <class T>
  hasher& add_values(std::span<const T> values) noexcept {
    return add(std::as_bytes(values));
  }

  template <class T>
  hasher& add_value(const T& value) noexcept {
    return add(std::as_bytes(std::span{&value, 1}));
  }

  [[nodiscard]] std::uint64_t finish() const noexcept {
    std::uint64_t lanes[8];
    for (std::size_t i = 0; i < 8; ++i) lanes[i] = lanes_[i];
    return detail::joined(lanes, length_);
  }

 private:
  using lane_array = detail::hash_lanes;

  // Eight independent multiply-rotate lanes, unrolled by hand: GCC's -O2 does not.
  template <std::size_t... I>
  static void stripe(lane_array& to, const std::byte* p, std::index_sequence<I...>) noexcept {
    ((to[I] = detail::mixed_in(to[I], detail::load64(p + 8 * I))), ...);
  }

  lane_array lanes_;
  std::uint64_t length_ = 0;
};

inline std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept {
  return hasher{seed}.add(bytes).finish();
}

inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) noexcept {
  return hash_bytes(std::as_bytes(std::span{text.data(), text.size()}), seed);
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_HASH_HPP

// ---- causeway/sim/scheduler.hpp ----
#ifndef CAUSEWAY_SIM_SCHEDULER_HPP
#define CAUSEWAY_SIM_SCHEDULER_HPP

// Virtual time: a queue of things to come, ordered by their time and then by the order in which they were asked for, so
// that nothing depends on anything but the program. Everything that happens is folded into a running hash: two runs with
// equal hashes did the same things in the same order.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// What an event is, for the history.
enum class event_kind : std::uint8_t {
  script,   ///< asked for with world::at or after
  timer,    ///< a deadline, a sleep, a wake_at
  resume,   ///< a process runs on
  uplink,   ///< a host may put its next piece on the wire
  pace,     ///< a flow may go on
  arrive,   ///< a piece reaches a host's downlink
  deliver,  ///< a piece is in the host's memory
  connect,  ///< a step of making a connection
  reset,    ///< the news that a connection has ended
  heal,     ///< what a black hole held back comes out
  notify,   ///< a fabric tells its owner something it was asked to tell later
  fault,    ///< kill, stop, resume, restart, a link cut or mended
};

struct event_label {
  event_kind kind = event_kind::script;
  std::uint32_t host = UINT32_MAX;
  std::uint64_t size = 0;  ///< bytes, or whatever else tells events of one kind apart
};

/// The time of a scheduler. Models Clock; stays readable when the scheduler is gone.
class virtual_clock {
 public:
  CAUSEWAY_DECL explicit virtual_clock(std::shared_ptr<const time_point> now);
  [[nodiscard]] time_point now() const noexcept { return *now_; }

 private:
  std::shared_ptr<const time_point> now_;
};
static_assert(Clock<virtual_clock>);

class scheduler {
 public:
  /// Names an event to come. 0 names none.
  using ticket = std::uint64_t;

  [[nodiscard]] time_point now() const noexcept { return *now_; }
  CAUSEWAY_DECL [[nodiscard]] virtual_clock clock() const;
  /// What the clocks of hosts are made from.
  CAUSEWAY_DECL [[nodiscard]] std::shared_ptr<const time_point> shared_now() const;

  /// `what` happens at `when`; a time in the past means now. Cost: O(log n).
  CAUSEWAY_DECL ticket at(time_point when, const event_label& label, std::function<void()> what);

  CAUSEWAY_DECL ticket after(duration delay, const event_label& label, std::function<void()> what);

  /// The event will not happen. Nothing if it has, or was cancelled before.
  CAUSEWAY_DECL void cancel(ticket t);

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] std::size_t pending() const noexcept { return heap_.size(); }
  /// When the next event happens; no_deadline if there is none.
  [[nodiscard]] time_point next_time() const noexcept { return heap_.empty() ? no_deadline : heap_.front().when; }

  /// Moves on to the next event and lets it happen. There must be one.
  CAUSEWAY_DECL void run_next();

  /// Time passes without an event; never back, and not beyond the next one.
  CAUSEWAY_DECL void advance_to(time_point when);

  /// Folds something that happens now into the history.
  CAUSEWAY_DECL void record(const event_label& label) noexcept;

  [[nodiscard]] std::uint64_t history_hash() const noexcept { return causeway::detail::scramble(history_); }
  [[nodiscard]] std::uint64_t executed() const noexcept { return executed_; }

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct entry {
    time_point when;
    std::uint64_t sequence = 0;
    std::uint32_t slot = 0;

    CAUSEWAY_DECL [[nodiscard]] bool before(const entry& other) const noexcept;
  };

  struct slot_state {
    event_label label;
    std::function<void()> what;
    std::size_t position = nowhere;  ///< in the heap
    std::uint32_t generation = 1;
  };

  CAUSEWAY_DECL std::uint32_t free_slot();

  CAUSEWAY_DECL void release(std::uint32_t slot);

  CAUSEWAY_DECL void take_out(std::size_t position);

  CAUSEWAY_DECL void put(std::size_t position, const entry& e);

  CAUSEWAY_DECL void rise(std::size_t position);

  CAUSEWAY_DECL void sink(std::size_t position);

  std::shared_ptr<time_point> now_ = std::make_shared<time_point>();
  std::vector<entry> heap_;  // 4-ary: children of i are 4 i + 1 to 4 i + 4
  std::vector<slot_state> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t history_ = 0;
  std::uint64_t executed_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_SCHEDULER_HPP

// ---- causeway/sim/impl/scheduler.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_SCHEDULER_IPP
#define CAUSEWAY_SIM_IMPL_SCHEDULER_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL virtual_clock::virtual_clock(std::shared_ptr<const time_point> now) : now_{std::move(now)} {}

CAUSEWAY_DECL virtual_clock scheduler::clock() const { return virtual_clock{now_}; }

CAUSEWAY_DECL std::shared_ptr<const time_point> scheduler::shared_now() const { return now_; }

CAUSEWAY_DECL auto scheduler::at(time_point when, const event_label& label, std::function<void()> what) -> ticket {
  const std::uint32_t slot = free_slot();
  slots_[slot].label = label;
  slots_[slot].what = std::move(what);
  heap_.push_back({std::max(when, *now_), next_sequence_++, slot});
  slots_[slot].position = heap_.size() - 1;
  rise(heap_.size() - 1);
  return ticket{slots_[slot].generation} << 32U | (ticket{slot} + 1);
}

CAUSEWAY_DECL auto scheduler::after(duration delay, const event_label& label, std::function<void()> what) -> ticket {
  return at(*now_ + delay, label, std::move(what));
}

CAUSEWAY_DECL void scheduler::cancel(ticket t) {
  const auto slot = static_cast<std::uint32_t>((t & UINT32_MAX) - 1);
  if (slot >= slots_.size() || slots_[slot].generation != t >> 32U || slots_[slot].position == nowhere) return;
  take_out(slots_[slot].position);
  release(slot);
}

CAUSEWAY_DECL void scheduler::run_next() {
  CAUSEWAY_EXPECT(!heap_.empty());
  const entry next = heap_.front();
  take_out(0);
  *now_ = next.when;
  record(slots_[next.slot].label);
  const std::function<void()> what = std::move(slots_[next.slot].what);
  release(next.slot);
  what();
}

CAUSEWAY_DECL void scheduler::advance_to(time_point when) {
  CAUSEWAY_EXPECT(when <= next_time());
  *now_ = std::max(when, *now_);
}

CAUSEWAY_DECL void scheduler::record(const event_label& label) noexcept {
  const auto time = static_cast<std::uint64_t>(now_->since_start.count());
  const std::uint64_t what = label.size << 24U ^ std::uint64_t{label.host} << 8U ^ static_cast<std::uint64_t>(label.kind);
  history_ =
      causeway::detail::scramble(history_ ^ time * causeway::detail::hash_prime) + what * causeway::detail::hash_prime;
  ++executed_;
}

CAUSEWAY_DECL bool scheduler::entry::before(const entry& other) const noexcept {
  return when != other.when ? when < other.when : sequence < other.sequence;
}

CAUSEWAY_DECL std::uint32_t scheduler::free_slot() {
  if (free_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

CAUSEWAY_DECL void scheduler::release(std::uint32_t slot) {
  slots_[slot].what = nullptr;
  slots_[slot].position = nowhere;
  ++slots_[slot].generation;
  free_.push_back(slot);
}

CAUSEWAY_DECL void scheduler::take_out(std::size_t position) {
  const entry last = heap_.back();
  slots_[heap_[position].slot].position = nowhere;
  heap_.pop_back();
  if (position == heap_.size()) return;
  put(position, last);
  rise(position);
  sink(slots_[last.slot].position);
}

CAUSEWAY_DECL void scheduler::put(std::size_t position, const entry& e) {
  heap_[position] = e;
  slots_[e.slot].position = position;
}

CAUSEWAY_DECL void scheduler::rise(std::size_t position) {
  const entry e = heap_[position];
  while (position > 0 && e.before(heap_[(position - 1) / 4])) {
    put(position, heap_[(position - 1) / 4]);
    position = (position - 1) / 4;
  }
  put(position, e);
}

CAUSEWAY_DECL void scheduler::sink(std::size_t position) {
  const entry e = heap_[position];
  for (;;) {
    std::size_t first = 4 * position + 1;
    if (first >= heap_.size()) break;
    const std::size_t end = std::min(first + 4, heap_.size());
    for (std::size_t other = first + 1; other < end; ++other) {
      if (heap_[other].before(heap_[first])) first = other;
    }
    if (!heap_[first].before(e)) break;
    put(position, heap_[first]);
    position = first;
  }
  put(position, e);
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_SCHEDULER_IPP
#endif

// ---- causeway/sim/transit.hpp ----
#ifndef CAUSEWAY_SIM_TRANSIT_HPP
#define CAUSEWAY_SIM_TRANSIT_HPP

// How bytes get from host to host. A sender's uplink serves its flows in turn, a piece each; a piece leaves at the uplink's
// rate or at its connection's, whichever is lower, and reaches the receiver's downlink one latency later. Downlinks serve
// pieces in the order in which their first bits arrive, and start before the last bit is there, so a message alone on its
// way takes exactly latency + bytes / bandwidth. Two events per message of one piece.
//
// A flow has at most a window of bytes on its way (twice rate times round trip, and some), so that a fast sender cannot
// queue a whole model at a slow receiver. Losses and black holes delay, as they do under TCP; nothing overtakes.

#include <deque>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

/// Why the process of a host stands still. Several causes may be there at a time.
enum standstill : std::uint8_t {
  stopped = 1,   ///< SIGSTOP
  disk_held = 2  ///< it waits for its disk with the lock held that all its events need
};

/// A host as its network card and its kernel are: there whether or not a process runs.
struct machine {
  CAUSEWAY_DECL explicit machine(std::shared_ptr<const time_point> now);

  host_options options;
  host_clock clock;
  bool powered = true;
  std::uint8_t frozen = 0;  ///< why its process stands still (see `standstill`); what concerns it waits in `backlog`
  time_point frozen_since;
  duration frozen_total{0};
  std::deque<std::function<void()>> backlog;
  std::map<std::uint32_t, socket_owner*> listeners;
  std::vector<end_ref> ends;  ///< of its connections; some of them may be over
  std::size_t tidy_ends_at = 16;
  queue<end_ref> ready;  ///< flows that want the uplink
  bool serving = false;  ///< an event will serve them
  time_point up_free;
  time_point down_free;
  std::uint32_t locks = 0;             ///< fabrics of its process whose lock the process holds
  time_point disk_until;               ///< what is posted meanwhile leaves then: see world::wait_for_disk
  duration* aside = nullptr;           ///< what the disk takes counts here: work that nobody waits for
  std::uint32_t boots = 0;             ///< processes so far
  std::uint64_t most_connections = 0;  ///< beyond it no dial and no accept works; 0: no limit
  double no_memory = 0;                ///< part of the messages that cannot be taken in
};

class transit {
 public:
  CAUSEWAY_DECL transit(const world_options& options, scheduler& events);
  transit(const transit&) = delete;
  transit& operator=(const transit&) = delete;

  [[nodiscard]] link_map& links() noexcept { return links_; }
  [[nodiscard]] rng& random() noexcept { return random_; }
  [[nodiscard]] message_pool& pool() noexcept { return pool_; }
  [[nodiscard]] machine& at(host_index host) { return machines_[host]; }
  [[nodiscard]] std::uint32_t hosts() const noexcept { return static_cast<std::uint32_t>(machines_.size()); }

  CAUSEWAY_DECL void add_host(const host_options& options);

  /// The connection that an end belongs to, if it still exists.
  CAUSEWAY_DECL [[nodiscard]] connection* find(end_ref e);

  /// A connection from `from` (side 0) to `to` (side 1).
  CAUSEWAY_DECL end_ref connect(host_index from, socket_owner* dialer, host_index to, socket_owner* listener);

  /// Calls `visit(connection, end)` for each end at `host`, open or not, of the connections that are not over.
  template <class F>
  void for_each_end(host_index host, F&& visit) {
    machine& m = machines_[host];
    tidy(m);
    const std::vector<end_ref> ends = m.ends;  // visiting one may end another
    for (const end_ref e : ends) {
      if (connection* const c = find(e); c != nullptr) visit(*c, e);
    }
  }

  void free_if_over(end_ref e);

  [[nodiscard]] std::size_t open_connections() const noexcept { return connections_.size() - free_.size(); }

  /// Nothing that is on its way arrives any more.
  CAUSEWAY_DECL void clear(connection& c);

  /// What is on its way but control messages is lost, and nobody notices yet.
  CAUSEWAY_DECL void lose_data(connection& c);

  /// A draw. Nothing is drawn for what cannot happen, so that a fault changes no history but its own.
  [[nodiscard]] bool happens(double chance) { return chance > 0 && static_cast<double>(random_.uniform()) < chance; }

  CAUSEWAY_DECL [[nodiscard]] duration up_to(duration most);

  CAUSEWAY_DECL [[nodiscard]] std::size_t connections_of(host_index host);

  /// Whether the host has no descriptor left for another connection.
  CAUSEWAY_DECL [[nodiscard]] bool is_full(host_index host);

  CAUSEWAY_DECL void send(end_ref e, sent_message_ptr message);

  /// Gives up a message whose last piece is not on the wire yet. The receiver is told if it has seen a part of it.
  CAUSEWAY_DECL void abort(end_ref e, std::uint32_t operation);

  /// The receiver at `e` has no room for data, or has it again.
  CAUSEWAY_DECL void pause(end_ref e, bool yes);

  CAUSEWAY_DECL void freeze(host_index host, standstill why = standstill::stopped);

  CAUSEWAY_DECL void thaw(host_index host, unsigned causes = standstill::stopped);

  /// `what` happens in the host's process: now, or when it runs again.
  template <class F>
  void dispatch(host_index host, F&& what) {
    if (machines_[host].frozen) {
      machines_[host].backlog.emplace_back(std::forward<F>(what));
    } else {
      what();
    }
  }

  /// A line carries packets again: what it held back comes out when its senders try again.
  CAUSEWAY_DECL void healed(host_index from, host_index to, duration black);

  /// Senders that meet a black hole try again ever less often.
  CAUSEWAY_DECL duration retry_delay(duration black);

  /// One way, one packet.
  CAUSEWAY_DECL duration flight_time(const link& l);

  /// A whole message came to the end `e` (the receiver's), or a goodbye.
  std::function<void(end_ref, sent_message_ptr)> on_delivery;

 private:
  CAUSEWAY_DECL void enter(machine& m, end_ref e);

  CAUSEWAY_DECL void tidy(machine& m);

  CAUSEWAY_DECL std::uint32_t free_slot();

  CAUSEWAY_DECL static queue<sent_message_ptr>* next_lane(flow& f);

  CAUSEWAY_DECL void refresh(flow& f);

  CAUSEWAY_DECL void pump(flow& f, end_ref e);

  /// Queues a flow at its uplink, if there is something that it may send.
  CAUSEWAY_DECL bool enqueue(flow& f, end_ref e);

  CAUSEWAY_DECL void go_on(end_ref e);

  CAUSEWAY_DECL void serve(host_index host);

  CAUSEWAY_DECL void transmit(connection& c, flow& f, end_ref e);

  CAUSEWAY_DECL duration loss_delay(const flow& f, std::uint64_t bytes);

  CAUSEWAY_DECL void arrive(end_ref e);

  CAUSEWAY_DECL void enter_downlink(flow& f, end_ref e, piece p);

  CAUSEWAY_DECL void release(end_ref e);

  CAUSEWAY_DECL void deliver(end_ref e);

  CAUSEWAY_DECL void read(end_ref e);

  CAUSEWAY_DECL void take(flow& f, end_ref e, piece p);

  CAUSEWAY_DECL void acknowledge(flow& f, end_ref e, std::uint64_t bytes);

  const world_options& options_;
  scheduler& events_;
  link_map links_;
  rng random_;
  message_pool pool_;  // before all that holds messages
  std::deque<machine> machines_;
  std::deque<connection> connections_;  // they stay where they are
  std::vector<std::uint32_t> free_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_TRANSIT_HPP

// ---- causeway/sim/impl/transit.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_TRANSIT_IPP
#define CAUSEWAY_SIM_IMPL_TRANSIT_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL machine::machine(std::shared_ptr<const time_point> now) : clock{std::move(now)} {}

CAUSEWAY_DECL transit::transit(const world_options& options, scheduler& events)
    : options_{options}, events_{events}, links_{options.link}, random_{options.seed, mix(0x6E65740000ULL)} {}

CAUSEWAY_DECL void transit::add_host(const host_options& options) {
  machines_.emplace_back(events_.shared_now()).options = options;
  links_.add_host(options.region);
}

CAUSEWAY_DECL connection* transit::find(end_ref e) {
  if (e.slot() >= connections_.size()) return nullptr;
  connection& c = connections_[e.slot()];
  return c.used && c.generation == e.generation() ? &c : nullptr;
}

CAUSEWAY_DECL end_ref transit::connect(host_index from, socket_owner* dialer, host_index to, socket_owner* listener) {
  const std::uint32_t slot = free_slot();
  connection& c = connections_[slot];
  c.used = true;
  c.ends = {connection::end{dialer, true}, connection::end{listener, true}};
  for (const unsigned side : {0U, 1U}) {
    flow& f = c.flows[side];
    f.from = side == 0 ? from : to;
    f.to = side == 0 ? to : from;
    f.there = &links_.between(f.from, f.to);
    f.back = &links_.between(f.to, f.from);
  }
  const end_ref end = end_ref::make(slot, c.generation, 0);
  enter(machines_[from], end);
  enter(machines_[to], end.other());
  return end;
}

CAUSEWAY_INLINE void transit::free_if_over(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->ends[0].open || c->ends[1].open) return;
  const std::uint32_t generation = (c->generation + 1) & 0x7FFFFFFFU;
  *c = connection{};
  c->generation = generation;
  free_.push_back(e.slot());
}

CAUSEWAY_DECL void transit::clear(connection& c) {
  for (flow& f : c.flows) {
    for (auto& q : f.waiting) q.clear();
    for (auto* const q : {&f.wire, &f.held, &f.arriving, &f.unread}) q->clear();
  }
}

CAUSEWAY_DECL void transit::lose_data(connection& c) {
  for (flow& f : c.flows) {
    f.waiting[static_cast<std::size_t>(lane::data)].clear();
    f.waiting[static_cast<std::size_t>(lane::bulk)].clear();
    for (auto* const q : {&f.wire, &f.held, &f.arriving, &f.unread}) {
      q->erase_if([](piece& p) {
        if (p.last && p.last->way != lane::control) p.last.reset();
        return false;
      });
    }
  }
}

CAUSEWAY_DECL duration transit::up_to(duration most) {
  return duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count()) + 1))};
}

CAUSEWAY_DECL std::size_t transit::connections_of(host_index host) {
  std::size_t open = 0;
  for (const end_ref e : machines_[host].ends) {
    const connection* const c = find(e);
    if (c != nullptr && c->ends[e.side()].open) ++open;
  }
  return open;
}

CAUSEWAY_DECL bool transit::is_full(host_index host) {
  const std::uint64_t most = machines_[host].most_connections;
  return most != 0 && connections_of(host) >= most;
}

CAUSEWAY_DECL void transit::send(end_ref e, sent_message_ptr message) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  message->wire_bytes = message->bytes.size() + options_.header_bytes;
  f.waiting[static_cast<std::size_t>(message->way)].push(std::move(message));
  pump(f, e);
}

CAUSEWAY_DECL void transit::abort(end_ref e, std::uint32_t operation) {
  connection* const c = find(e);
  if (c == nullptr) return;
  for (auto& q : c->flows[e.side()].waiting) {
    q.erase_if([&](sent_message_ptr& p) {
      if (p->operation != operation) return false;
      if (p->sent == 0) return true;
      p->aborted = true;
      p->operation = UINT32_MAX;
      p->bytes.clear();
      p->wire_bytes = p->sent + options_.header_bytes;
      return false;
    });
  }
}

CAUSEWAY_DECL void transit::pause(end_ref e, bool yes) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.other().side()];
  if (std::exchange(f.paused, yes) && !yes) pump(f, e.other());
}

CAUSEWAY_DECL void transit::freeze(host_index host, standstill why) {
  machine& m = machines_[host];
  if (std::exchange(m.frozen, m.frozen | why) == 0) m.frozen_since = events_.now();
}

CAUSEWAY_DECL void transit::thaw(host_index host, unsigned causes) {
  machine& m = machines_[host];
  if (m.frozen == 0) return;
  m.frozen = static_cast<std::uint8_t>(m.frozen & ~causes);
  if (m.frozen != 0) return;
  m.frozen_total += events_.now() - m.frozen_since;
  while (m.frozen == 0 && !m.backlog.empty()) {
    const auto next = std::move(m.backlog.front());
    m.backlog.pop_front();
    next();
  }
}

CAUSEWAY_DECL void transit::healed(host_index from, host_index to, duration black) {
  const link& mended = links_.between(from, to);
  for_each_end(from, [&](connection& c, end_ref ours) {
    for (const end_ref e : {ours, ours.other()}) {
      flow& f = c.flows[e.side()];
      const bool waits = f.there == &mended && !f.held.empty() && !f.releasing;
      const bool unheard = f.back == &mended && f.unacknowledged != 0;
      if (waits) f.releasing = true;
      if (!waits && !unheard) continue;
      events_.after(retry_delay(black), {event_kind::heal, f.to, f.held.size()}, [this, e] { release(e); });
    }
  });
}

CAUSEWAY_DECL duration transit::retry_delay(duration black) {
  const duration longest = std::min<duration>(black, std::chrono::seconds{1});
  return duration{static_cast<std::int64_t>(static_cast<double>(longest.count()) * static_cast<double>(random_.uniform()))};
}

CAUSEWAY_DECL duration transit::flight_time(const link& l) {
  duration t = l.options.latency;
  if (l.options.jitter.count() > 0) {
    t += duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(l.options.jitter.count()) + 1))};
  }
  return t;
}

CAUSEWAY_DECL void transit::enter(machine& m, end_ref e) {
  m.ends.push_back(e);
  if (m.ends.size() < m.tidy_ends_at) return;
  tidy(m);
  m.tidy_ends_at = 2 * m.ends.size() + 16;
}

CAUSEWAY_DECL void transit::tidy(machine& m) {
  std::erase_if(m.ends, [this](end_ref e) { return find(e) == nullptr; });
}

CAUSEWAY_DECL std::uint32_t transit::free_slot() {
  if (free_.empty()) {
    connections_.emplace_back();
    return static_cast<std::uint32_t>(connections_.size() - 1);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

CAUSEWAY_DECL queue<sent_message_ptr>* transit::next_lane(flow& f) {
  for (std::size_t l = 0; l < (f.paused ? 1 : lanes); ++l) {
    if (!f.waiting[l].empty()) return &f.waiting[l];
  }
  return nullptr;
}

CAUSEWAY_DECL void transit::refresh(flow& f) {
  if (f.version == links_.version()) return;
  f.version = links_.version();
  f.cap = connection_cap(*f.there, *f.back);
  const double rate = std::min({machines_[f.from].options.up_bytes_per_s, machines_[f.to].options.down_bytes_per_s, f.cap});
  const double rtt = seconds(round_trip(*f.there, *f.back) + f.there->options.jitter + f.back->options.jitter);
  const double window = 2 * rate * rtt + 4 * static_cast<double>(options_.piece_bytes);
  f.window = window < 1e18 ? static_cast<std::uint64_t>(window) : UINT64_MAX;
}

CAUSEWAY_DECL void transit::pump(flow& f, end_ref e) {
  if (enqueue(f, e)) serve(f.from);
}

CAUSEWAY_DECL bool transit::enqueue(flow& f, end_ref e) {
  if (f.now != flow::state::idle || next_lane(f) == nullptr) return false;
  refresh(f);
  if (f.outstanding >= f.window) return false;  // an acknowledgement will go on
  machine& m = machines_[f.from];
  if (f.next_start > std::max(events_.now(), m.up_free)) {
    f.now = flow::state::paced;
    events_.at(f.next_start, {event_kind::pace, f.from, f.outstanding}, [this, e] { go_on(e); });
    return false;
  }
  f.now = flow::state::ready;
  f.next_start = std::max(f.next_start, events_.now());
  m.ready.push(e);
  return true;
}

CAUSEWAY_DECL void transit::go_on(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr) return;
  flow& f = c->flows[e.side()];
  f.now = flow::state::idle;
  pump(f, e);
}

CAUSEWAY_DECL void transit::serve(host_index host) {
  machine& m = machines_[host];
  while (!m.ready.empty()) {
    if (events_.now() < m.up_free) {
      if (std::exchange(m.serving, true)) return;
      events_.at(m.up_free, {event_kind::uplink, host, m.ready.size()}, [this, host] {
        machines_[host].serving = false;
        serve(host);
      });
      return;
    }
    const end_ref e = m.ready.pop();
    connection* const c = find(e);
    if (c == nullptr) continue;
    flow& f = c->flows[e.side()];
    f.now = flow::state::idle;
    if (next_lane(f) != nullptr) transmit(*c, f, e);
    enqueue(f, e);
  }
}

CAUSEWAY_DECL void transit::transmit(connection& c, flow& f, end_ref e) {
  queue<sent_message_ptr>& from = *next_lane(f);
  sent_message& message = *from.front();
  // On a slow line a piece is what it carries in a quarter of a second, so that news can pass between pieces.
  const double quick = std::min(static_cast<double>(options_.piece_bytes), std::max(1.0, f.cap / 4));
  const std::uint64_t bytes = std::min(static_cast<std::uint64_t>(quick), message.wire_bytes - message.sent);
  message.sent += bytes;

  machine& m = machines_[f.from];
  const auto size = static_cast<double>(bytes);
  const duration up = transfer_time(size, m.options.up_bytes_per_s);
  // By its own rate a piece is over at `next_start`, also if the uplink made it wait.
  f.next_start = f.next_start + transfer_time(size, f.cap);
  const duration spread = std::max(up, f.next_start - events_.now());
  m.up_free = events_.now() + up;
  f.last_arrival = std::max(events_.now() + flight_time(*f.there) + loss_delay(f, bytes), f.last_arrival);
  f.outstanding += bytes;
  piece p{bytes, spread, nullptr};
  if (message.sent == message.wire_bytes) p.last = from.pop();
  const std::uint32_t operation = p.last ? p.last->operation : UINT32_MAX;
  f.wire.push(std::move(p));
  events_.at(f.last_arrival, {event_kind::arrive, f.to, bytes}, [this, e] { arrive(e); });
  const connection::end& sender = c.ends[e.side()];
  if (operation != UINT32_MAX && sender.open) sender.owner->on_sent(e, operation);
}

CAUSEWAY_DECL duration transit::loss_delay(const flow& f, std::uint64_t bytes) {
  const double loss = f.there->options.loss;
  if (loss <= 0) return duration{0};
  const auto packets = static_cast<double>((bytes + 1459) / 1460);
  duration retry = std::max<duration>(round_trip(*f.there, *f.back), std::chrono::milliseconds{10});
  duration delay{0};
  for (double chance = 1 - std::pow(1 - loss, packets); static_cast<double>(random_.uniform()) < chance; chance = loss) {
    delay += retry;
    retry *= 2;
    if (delay > std::chrono::minutes{1}) break;
  }
  return delay;
}

CAUSEWAY_DECL void transit::arrive(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  if (f.wire.empty()) return;  // the host lost power meanwhile
  piece p = f.wire.pop();
  if (c->silent) return;
  if (f.there->blocked() || !f.held.empty()) return f.held.push(std::move(p));
  enter_downlink(f, e, std::move(p));
}

CAUSEWAY_DECL void transit::enter_downlink(flow& f, end_ref e, piece p) {
  machine& m = machines_[f.to];
  const time_point begin = std::max(events_.now(), m.down_free);
  m.down_free = begin + transfer_time(static_cast<double>(p.bytes), m.options.down_bytes_per_s);
  f.last_delivery = std::max({m.down_free, events_.now() + p.spread, f.last_delivery});
  const std::uint64_t bytes = p.bytes;
  f.arriving.push(std::move(p));
  events_.at(f.last_delivery, {event_kind::deliver, f.to, bytes}, [this, e] { deliver(e); });
}

CAUSEWAY_DECL void transit::release(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  f.releasing = false;
  while (!f.there->blocked() && !f.held.empty()) enter_downlink(f, e, f.held.pop());
  if (!machines_[f.to].frozen) acknowledge(f, e, std::exchange(f.unacknowledged, 0));
}

CAUSEWAY_DECL void transit::deliver(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  if (f.arriving.empty()) return;
  piece p = f.arriving.pop();
  if (!machines_[f.to].frozen) return take(f, e, std::move(p));
  f.unread_bytes += p.bytes;
  if (f.unread_bytes + std::min<std::uint64_t>(f.window, options_.socket_buffer) > options_.socket_buffer) {
    f.unacknowledged += p.bytes;
  } else {
    acknowledge(f, e, p.bytes);
  }
  p.bytes = 0;
  f.unread.push(std::move(p));
  machines_[f.to].backlog.emplace_back([this, e] { read(e); });
}

CAUSEWAY_DECL void transit::read(end_ref e) {
  connection* const c = find(e);
  if (c == nullptr || c->broken) return;
  flow& f = c->flows[e.side()];
  if (f.unread.empty()) return;
  f.unread_bytes = 0;
  piece p = f.unread.pop();
  p.bytes += std::exchange(f.unacknowledged, 0);
  take(f, e, std::move(p));
}

CAUSEWAY_DECL void transit::take(flow& f, end_ref e, piece p) {
  acknowledge(f, e, p.bytes);
  if (p.last) on_delivery(e.other(), std::move(p.last));
}

CAUSEWAY_DECL void transit::acknowledge(flow& f, end_ref e, std::uint64_t bytes) {
  if (f.back->blocked()) {
    f.unacknowledged += bytes;
    return;
  }
  f.outstanding -= bytes;
  if (f.now != flow::state::idle || f.outstanding >= f.window || next_lane(f) == nullptr) return;
  f.now = flow::state::paced;
  events_.after(f.back->options.latency, {event_kind::pace, f.from, f.outstanding}, [this, e] { go_on(e); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_TRANSIT_IPP
#endif

// ---- causeway/sim/network.hpp ----
#ifndef CAUSEWAY_SIM_NETWORK_HPP
#define CAUSEWAY_SIM_NETWORK_HPP

// The sockets of a simulated cluster: who listens, who dials, how connections are made and how they end. A connection is
// reliable and in order until it ends. Ended with a goodbye, what was sent before still arrives; reset, everything on its
// way is lost, and the other side hears of it one latency later.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

class network {
 public:
  CAUSEWAY_DECL network(const world_options& options, scheduler& events);
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  [[nodiscard]] transit& wires() noexcept { return transit_; }
  [[nodiscard]] machine& at(host_index host) { return transit_.at(host); }
  [[nodiscard]] const world_options& options() const noexcept { return options_; }
  [[nodiscard]] scheduler& events() noexcept { return events_; }

  CAUSEWAY_DECL void add_host(const host_options& options);
  CAUSEWAY_DECL [[nodiscard]] host_index host_called(const std::string& name) const;

  CAUSEWAY_DECL void listen(host_index host, std::uint32_t port, socket_owner* owner);

  /// Tells `owner` on_connected or on_refused, with `tag`. The SYN, its answer and what the dialer then says take one and
  /// a half round trips, and a random delay on top (world_options::connect_delay_*).
  CAUSEWAY_DECL std::uint64_t dial(host_index from, socket_owner* owner, std::uint64_t tag, host_index to,
                                   std::uint32_t port);

  void cancel_dial(std::uint64_t number) { forget(number); }

  /// Lost where the connection is over.
  CAUSEWAY_DECL void send(end_ref e, sent_message_ptr message);

  /// Ends a connection from one side. That side hears no more of it; the other does.
  CAUSEWAY_DECL void close(end_ref e, const std::string& why, bool with_goodbye);

  /// Ends everything that `owner` has: its connections, its dials, its ports.
  CAUSEWAY_DECL void drop(const socket_owner* owner, host_index host, const std::string& why, bool with_goodbye);

  /// Whether the other side still holds its end: what a real peer finds out by comparing incarnations.
  CAUSEWAY_DECL [[nodiscard]] bool far_end_open(end_ref e);

  [[nodiscard]] bool blocked(host_index from, host_index to) { return transit_.links().between(from, to).blocked(); }

  /// Nothing arrives from `from` at `to` any more, until as many unblock calls.
  CAUSEWAY_DECL void block(host_index from, host_index to);

  CAUSEWAY_DECL void unblock(host_index from, host_index to);

  /// One of the TCP streams of each connection between the two dies: what it carried is lost, control messages still come
  /// until the host `a` notices, a round trip later, and ends the link.
  CAUSEWAY_DECL void lose_stream(host_index a, host_index b);

  /// What befalls control messages that arrive at the end `e`.
  CAUSEWAY_DECL [[nodiscard]] bool befalls(mishap what, end_ref e);

  /// Tells the process at the other side of a connection from its earlier and later ones. 0: the connection is over.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t far_process(end_ref e);

  /// The machine goes dark: nobody is told, nothing answers.
  CAUSEWAY_DECL void power_off(host_index host);

  /// It answers again: with a reset, to those who still think that they are connected.
  CAUSEWAY_DECL void power_on(host_index host);

 private:
  struct attempt {
    socket_owner* owner = nullptr;
    std::uint64_t tag = 0;
    host_index from = 0;
    host_index to = 0;
    std::uint32_t port = 0;
    std::uint32_t tries = 0;
    scheduler::ticket deadline = 0;
    scheduler::ticket retry = 0;
  };

  CAUSEWAY_DECL void forget(std::uint64_t number);

  CAUSEWAY_DECL attempt* find_attempt(std::uint64_t number);

  /// A SYN; again after 1, 3, 7 s while nothing comes back.
  CAUSEWAY_DECL void knock(std::uint64_t number, duration extra);

  CAUSEWAY_DECL void answer(std::uint64_t number);

  CAUSEWAY_DECL void establish(std::uint64_t number);

  CAUSEWAY_DECL void conclude(std::uint64_t number, const error& why);

  CAUSEWAY_DECL void delivered(end_ref e, sent_message_ptr message);

  /// The smallest change of the last value, whatever its type.
  CAUSEWAY_DECL static void alter(std::vector<std::byte>& bytes);

  /// The side `e` ends its connection and is told why; the other hears of it.
  CAUSEWAY_DECL void give_up(end_ref e, const std::string& why);

  /// The side `e` has ended a connection; the news goes its way.
  CAUSEWAY_DECL void tell_other_side(const connection& c, end_ref e, duration extra);

  /// The end `e` learns that its connection is over.
  CAUSEWAY_DECL void end_of(end_ref e);

  const world_options& options_;
  scheduler& events_;
  transit transit_;
  std::map<std::string, host_index> by_name_;
  std::map<std::uint64_t, attempt> attempts_;
  std::uint64_t last_attempt_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_NETWORK_HPP

// ---- causeway/sim/impl/network.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_NETWORK_IPP
#define CAUSEWAY_SIM_IMPL_NETWORK_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL network::network(const world_options& options, scheduler& events)
    : options_{options}, events_{events}, transit_{options, events} {
  transit_.on_delivery = [this](end_ref e, sent_message_ptr message) { delivered(e, std::move(message)); };
}

CAUSEWAY_DECL void network::listen(host_index host, std::uint32_t port, socket_owner* owner) {
  at(host).listeners[port] = owner;
}

CAUSEWAY_DECL void network::add_host(const host_options& options) {
  by_name_[options.name] = transit_.hosts();
  transit_.add_host(options);
}

CAUSEWAY_DECL host_index network::host_called(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? no_host : found->second;
}

CAUSEWAY_DECL std::uint64_t network::dial(host_index from, socket_owner* owner, std::uint64_t tag, host_index to,
                                          std::uint32_t port) {
  const std::uint64_t number = ++last_attempt_;
  attempt& a = attempts_[number];
  a = {owner, tag, from, to, port};
  const duration range = options_.connect_delay_max - options_.connect_delay_min;
  const auto extra =
      transit_.random().below(static_cast<std::uint64_t>(std::max<duration>(range, duration{0}).count()) + 1);
  const auto give_up = [this, number] {
    conclude(number, fail(errc::unreachable, "", "nobody answered in time; is it running, and can this network reach it?"));
  };
  if (transit_.is_full(from)) {
    a.deadline = events_.after(duration{0}, {event_kind::connect, from, tag}, [this, number] {
      conclude(number, fail(errc::unreachable, "", "too many open files: no descriptor is left for a connection"));
    });
    return number;
  }
  a.deadline = events_.after(options_.connect_timeout, {event_kind::connect, from, tag}, give_up);
  knock(number, options_.connect_delay_min + duration{static_cast<std::int64_t>(extra)});
  return number;
}

CAUSEWAY_DECL void network::send(end_ref e, sent_message_ptr message) {
  const connection* const c = transit_.find(e);
  if (c != nullptr && c->ends[e.side()].open) transit_.send(e, std::move(message));
}

CAUSEWAY_DECL void network::close(end_ref e, const std::string& why, bool with_goodbye) {
  connection* const c = transit_.find(e);
  if (c == nullptr || !c->ends[e.side()].open) return;
  c->ends[e.side()].open = false;
  if (!c->broken && !c->silent && c->ends[e.other().side()].open) {
    c->why = why;
    if (with_goodbye) {
      transit_.send(e, transit_.pool().make(content::goodbye, lane::bulk));
    } else {
      c->broken = true;
      transit_.clear(*c);
      tell_other_side(*c, e, duration{0});
    }
  }
  transit_.free_if_over(e);
}

CAUSEWAY_DECL void network::drop(const socket_owner* owner, host_index host, const std::string& why, bool with_goodbye) {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;
    if (here->second.owner == owner) forget(here->first);
  }
  std::erase_if(at(host).listeners, [&](const auto& l) { return l.second == owner; });
  transit_.for_each_end(host, [&](connection& c, end_ref e) {
    if (c.ends[e.side()].owner == owner) close(e, why, with_goodbye);
  });
}

CAUSEWAY_DECL bool network::far_end_open(end_ref e) {
  connection* const c = transit_.find(e);
  return c != nullptr && !c->broken && !c->silent && c->ends[e.other().side()].open;
}

CAUSEWAY_DECL void network::block(host_index from, host_index to) {
  link& l = transit_.links().between(from, to);
  if (l.blocks++ == 0) l.blocked_since = events_.now();
}

CAUSEWAY_DECL void network::unblock(host_index from, host_index to) {
  link& l = transit_.links().between(from, to);
  if (l.blocks == 0 || --l.blocks != 0) return;
  const duration black = events_.now() - l.blocked_since;
  transit_.healed(from, to, black);
  transit_.for_each_end(from, [&](connection& c, end_ref e) {
    if (c.broken && c.flows[e.side()].to == to && !c.ends[e.side()].open) {
      tell_other_side(c, e, transit_.retry_delay(black));
    }
  });
}

CAUSEWAY_DECL void network::lose_stream(host_index a, host_index b) {
  transit_.for_each_end(a, [&](connection& c, end_ref e) {
    if (c.flows[e.side()].to != b || c.broken || c.silent) return;
    transit_.lose_data(c);
    const flow& f = c.flows[e.side()];
    events_.after(transit_.flight_time(*f.there) + transit_.flight_time(*f.back), {event_kind::reset, a, b},
                  [this, a, e] { transit_.dispatch(a, [this, e] { give_up(e, "one of its streams has ended"); }); });
  });
}

CAUSEWAY_DECL bool network::befalls(mishap what, end_ref e) {
  const connection* const c = transit_.find(e);
  return c != nullptr && transit_.happens(c->flows[e.other().side()].there->chance_of(what));
}

CAUSEWAY_DECL std::uint64_t network::far_process(end_ref e) {
  const connection* const c = transit_.find(e);
  if (c == nullptr || c->broken || c->silent || !c->ends[e.other().side()].open) return 0;
  const host_index host = c->flows[e.side()].to;
  return std::uint64_t{host} << 32U | at(host).boots;
}

CAUSEWAY_DECL void network::power_off(host_index host) {
  machine& m = at(host);
  m.powered = false;
  m.listeners.clear();
  transit_.for_each_end(host, [&](connection& c, end_ref e) {
    if (!c.ends[e.side()].open) return;
    c.ends[e.side()].open = false;
    c.silent = true;
    transit_.clear(c);
    transit_.free_if_over(e);
  });
}

CAUSEWAY_DECL void network::power_on(host_index host) {
  machine& m = at(host);
  if (std::exchange(m.powered, true)) return;
  transit_.for_each_end(host, [&](connection& c, end_ref e) {
    if (!c.silent || c.broken) return;
    c.broken = true;
    transit_.clear(c);
    c.why = "the machine was started anew";
    tell_other_side(c, e, transit_.retry_delay(std::chrono::seconds{1}));
  });
}

CAUSEWAY_DECL void network::forget(std::uint64_t number) {
  const auto found = attempts_.find(number);
  if (found == attempts_.end()) return;
  events_.cancel(found->second.deadline);
  events_.cancel(found->second.retry);
  attempts_.erase(found);
}

CAUSEWAY_DECL auto network::find_attempt(std::uint64_t number) -> attempt* {
  const auto found = attempts_.find(number);
  return found == attempts_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL void network::knock(std::uint64_t number, duration extra) {
  attempt* const a = find_attempt(number);
  if (a == nullptr) return;
  const link& there = transit_.links().between(a->from, a->to);
  events_.after(extra + transit_.flight_time(there), {event_kind::connect, a->to, number},
                [this, number] { answer(number); });
  const duration retry = std::chrono::seconds{1} * (1U << a->tries++);
  if (retry < options_.connect_timeout) {
    a->retry = events_.after(retry, {event_kind::connect, a->from, number}, [this, number] { knock(number, duration{0}); });
  }
}

CAUSEWAY_DECL void network::answer(std::uint64_t number) {
  const attempt* const a = find_attempt(number);
  if (a == nullptr || transit_.links().between(a->from, a->to).blocked() || !at(a->to).powered) return;
  const link& back = transit_.links().between(a->to, a->from);
  events_.after(transit_.flight_time(back), {event_kind::connect, a->from, number}, [this, number] { establish(number); });
}

CAUSEWAY_DECL void network::establish(std::uint64_t number) {
  const attempt* const a = find_attempt(number);
  if (a == nullptr || transit_.links().between(a->to, a->from).blocked()) return;
  if (transit_.is_full(a->to) || transit_.is_full(a->from)) return;  // nobody accepts it
  const auto& listeners = at(a->to).listeners;
  const auto listener = listeners.find(a->port);
  if (listener == listeners.end()) {
    return conclude(number, fail(errc::unreachable, "", "nobody listens there; is the peer running?"));
  }
  const attempt done = *a;
  forget(number);
  const end_ref end = transit_.connect(done.from, done.owner, done.to, listener->second);
  transit_.dispatch(done.from, [this, done, end] {
    const connection* const c = transit_.find(end);
    if (c != nullptr && c->ends[0].open) done.owner->on_connected(end, done.tag);
  });
}

CAUSEWAY_DECL void network::conclude(std::uint64_t number, const error& why) {
  const attempt* const a = find_attempt(number);
  if (a == nullptr) return;
  const attempt done = *a;
  forget(number);
  transit_.dispatch(done.from, [done, why] { done.owner->on_refused(done.tag, why); });
}

CAUSEWAY_DECL void network::delivered(end_ref e, sent_message_ptr message) {
  connection* const c = transit_.find(e);
  if (c == nullptr) return;
  connection::end& end = c->ends[e.side()];
  if (!end.open) return;
  if (message->what == content::goodbye) return end_of(e);
  const flow& f = c->flows[e.other().side()];
  if (transit_.happens(f.there->chance_of(mishap::damage))) return give_up(e, "a message was damaged on its way");
  if (transit_.happens(at(f.to).no_memory)) return give_up(e, "no memory is left for its message");
  if (message->what == content::data && transit_.happens(f.there->chance_of(mishap::alter))) alter(message->bytes);
  end.owner->on_message(e, std::move(message));
}

CAUSEWAY_DECL void network::alter(std::vector<std::byte>& bytes) {
  if (!bytes.empty()) bytes[bytes.size() - std::min<std::size_t>(bytes.size(), 4)] ^= std::byte{1};
}

CAUSEWAY_DECL void network::give_up(end_ref e, const std::string& why) {
  connection* const c = transit_.find(e);
  if (c == nullptr || !c->ends[e.side()].open) return;
  socket_owner* const owner = c->ends[e.side()].owner;
  close(e, why, false);
  owner->on_closed(e, fail(errc::peer_lost, "", why));
}

CAUSEWAY_DECL void network::tell_other_side(const connection& c, end_ref e, duration extra) {
  const flow& f = c.flows[e.side()];
  events_.after(extra + transit_.flight_time(*f.there), {event_kind::reset, f.to, c.generation}, [this, e] {
    connection* const found = transit_.find(e);
    if (found == nullptr || found->flows[e.side()].there->blocked()) return;  // unblock tells it again
    transit_.dispatch(found->flows[e.side()].to, [this, e] { end_of(e.other()); });
  });
}

CAUSEWAY_DECL void network::end_of(end_ref e) {
  connection* const c = transit_.find(e);
  if (c == nullptr || !c->ends[e.side()].open) return;
  c->ends[e.side()].open = false;
  c->broken = true;
  transit_.clear(*c);
  socket_owner* const owner = c->ends[e.side()].owner;
  const error why = fail(errc::peer_lost, "", c->why.empty() ? "the other side closed the connection" : c->why);
  transit_.free_if_over(e);
  owner->on_closed(e, why);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_NETWORK_IPP
#endif

// ---- causeway/sim/dialer.hpp ----
#ifndef CAUSEWAY_SIM_DIALER_HPP
#define CAUSEWAY_SIM_DIALER_HPP

// How two simulated fabrics come to know each other. The dialler says who it is and where it lives, the other answers in
// kind: then both have a connection to an id. Two peers that dial each other at once end with one connection, the one that
// the smaller id dialled. A peer that has lost its connection, or its life, may dial anew before the other has noticed.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::string address_text(network& net, host_index host, std::uint32_t port);

struct network_address {
  host_index host = no_host;
  std::uint32_t port = 0;
};

/// "host-3:1". No host: the text is no address of this network.
CAUSEWAY_DECL network_address parse_address(const network& net, const std::string& text);

/// What a dialer asks and tells.
class acquaintance {
 public:
  virtual ~acquaintance() = default;
  /// Whether a connection to `id` stands, in the eyes of both sides.
  virtual bool connected_to(net::peer_id id) = 0;
  /// `end` is a connection to `id`; it replaces an older one.
  virtual void met(end_ref end, net::peer_id id, const std::string& address) = 0;
  virtual void not_met(const std::string& address, const error& why) = 0;
};

class dialer {
 public:
  CAUSEWAY_DECL dialer(network& net, host_index host, net::peer_id id, std::string address, socket_owner& sockets,
                       acquaintance& owner);

  /// Once for each address at a time; ends with met or not_met.
  CAUSEWAY_DECL void dial(const std::string& address, const network_address& to);

  /// Answers whoever came before now, and from now on everybody at once.
  CAUSEWAY_DECL void open_doors();
  void close_doors() { open_ = false; }

  /// The process is over.
  CAUSEWAY_DECL void stop();

  // ---- what the network says; false: it is not about meeting -----------------------------------------------------------

  CAUSEWAY_DECL void connected(end_ref end, std::uint64_t tag);

  void failed(std::uint64_t tag, const error& why) { end_dial(tag, why); }

  CAUSEWAY_DECL bool heard(end_ref end, const sent_message& message);

  CAUSEWAY_DECL bool closed(end_ref end, const error& why);

 private:
  struct outgoing {
    std::string address;
    end_ref end;           ///< once the connection stands
    bool refused = false;  ///< the other side's own dial is under way instead
    std::uint64_t attempt = 0;
    scheduler::ticket deadline = 0;
  };
  using dial_map = std::map<std::uint64_t, outgoing>;

  struct greeting {
    end_ref end;
    net::peer_id id = 0;
    std::string address;
  };

  CAUSEWAY_DECL dial_map::iterator find(const std::string& address);
  CAUSEWAY_DECL dial_map::iterator find(end_ref end);

  CAUSEWAY_DECL void attach(outgoing& o, std::uint64_t tag, end_ref end);
  CAUSEWAY_DECL void detach(outgoing& o);

  CAUSEWAY_DECL void say(end_ref end, content what);

  CAUSEWAY_DECL static std::string text_of(const sent_message& message);

  CAUSEWAY_DECL void hear_hello(end_ref end, const sent_message& message);

  CAUSEWAY_DECL void accept(const greeting& g);

  CAUSEWAY_DECL void hear_welcome(end_ref end, const sent_message& message);

  /// The other side prefers its own dial to ours: that one will come.
  CAUSEWAY_DECL void hear_refusal(end_ref end);

  /// Ends a dial without a word.
  CAUSEWAY_DECL void forget(std::uint64_t tag);

  CAUSEWAY_DECL void end_dial(std::uint64_t tag, const error& why);

  network& net_;
  host_index host_;
  net::peer_id id_;
  std::string address_;
  socket_owner& sockets_;
  acquaintance& owner_;
  bool open_ = false;
  dial_map dials_;
  std::unordered_map<std::string, std::uint64_t> by_address_;
  std::unordered_map<std::uint64_t, std::uint64_t> by_end_;
  std::uint64_t last_ = 0;
  std::deque<greeting> early_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_DIALER_HPP

// ---- causeway/sim/impl/dialer.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_DIALER_IPP
#define CAUSEWAY_SIM_IMPL_DIALER_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::string address_text(network& net, host_index host, std::uint32_t port) {
  return net.at(host).options.name + ':' + std::to_string(port);
}

CAUSEWAY_DECL network_address parse_address(const network& net, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size() || text.size() - colon > 9) return {};
  std::uint32_t port = 0;
  for (const char c : std::string_view{text}.substr(colon + 1)) {
    if (c < '0' || c > '9') return {};
    port = 10 * port + static_cast<std::uint32_t>(c - '0');
  }
  return {net.host_called(text.substr(0, colon)), port};
}

CAUSEWAY_DECL dialer::dialer(network& net, host_index host, net::peer_id id, std::string address, socket_owner& sockets,
                             acquaintance& owner)
    : net_{net}, host_{host}, id_{id}, address_{std::move(address)}, sockets_{sockets}, owner_{owner} {}

CAUSEWAY_DECL void dialer::dial(const std::string& address, const network_address& to) {
  if (find(address) != dials_.end()) return;
  const std::uint64_t tag = ++last_;
  // The network's own deadline ends what gets no answer from the other kernel; this one, what none of its process.
  const duration patience = net_.options().connect_timeout + std::chrono::milliseconds{1};
  const auto give_up = [this, tag] {
    end_dial(tag, fail(errc::unreachable, "", "it took the connection, but did not answer in time"));
  };
  const scheduler::ticket deadline = net_.events().after(patience, {event_kind::timer, host_, tag},
                                                         [this, give_up] { net_.wires().dispatch(host_, give_up); });
  const std::uint64_t attempt = net_.dial(host_, &sockets_, tag, to.host, to.port);
  dials_.emplace(tag, outgoing{address, {}, false, attempt, deadline});
  by_address_[address] = tag;
}

CAUSEWAY_DECL void dialer::open_doors() {
  open_ = true;
  while (open_ && !early_.empty()) {
    const greeting next = std::move(early_.front());
    early_.pop_front();
    if (net_.wires().find(next.end) != nullptr) accept(next);
  }
}

CAUSEWAY_DECL void dialer::stop() {
  for (auto& [tag, d] : dials_) net_.events().cancel(d.deadline);
  dials_.clear();
  by_address_.clear();
  by_end_.clear();
  early_.clear();
}

CAUSEWAY_DECL void dialer::connected(end_ref end, std::uint64_t tag) {
  const auto dialled = dials_.find(tag);
  if (dialled == dials_.end()) return net_.close(end, "not wanted any more", false);
  attach(dialled->second, tag, end);
  say(end, content::hello);
}

CAUSEWAY_DECL bool dialer::heard(end_ref end, const sent_message& message) {
  switch (message.what) {
    case content::hello: hear_hello(end, message); return true;
    case content::welcome: hear_welcome(end, message); return true;
    case content::refusal: hear_refusal(end); return true;
    default: return false;
  }
}

CAUSEWAY_DECL bool dialer::closed(end_ref end, const error& why) {
  if (std::erase_if(early_, [&](const greeting& g) { return g.end == end; }) != 0) return true;
  const auto dialled = find(end);
  if (dialled == dials_.end()) return false;
  end_dial(dialled->first, fail(errc::unreachable, "", why.message));
  return true;
}

CAUSEWAY_DECL auto dialer::find(const std::string& address) -> dial_map::iterator {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? dials_.end() : dials_.find(found->second);
}

CAUSEWAY_DECL auto dialer::find(end_ref end) -> dial_map::iterator {
  const auto found = by_end_.find(end.value);
  return found == by_end_.end() ? dials_.end() : dials_.find(found->second);
}

CAUSEWAY_DECL void dialer::attach(outgoing& o, std::uint64_t tag, end_ref end) {
  o.end = end;
  by_end_[end.value] = tag;
}

CAUSEWAY_DECL void dialer::detach(outgoing& o) {
  by_end_.erase(o.end.value);
  o.end = {};
}

CAUSEWAY_DECL void dialer::say(end_ref end, content what) {
  sent_message_ptr message = net_.wires().pool().make(what, lane::control);
  message->from_id = id_;
  for (const char c : address_) message->bytes.push_back(static_cast<std::byte>(c));
  net_.send(end, std::move(message));
}

CAUSEWAY_DECL std::string dialer::text_of(const sent_message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

CAUSEWAY_DECL void dialer::hear_hello(end_ref end, const sent_message& message) {
  greeting g{end, message.from_id, text_of(message)};
  if (open_) {
    accept(g);
  } else {
    early_.push_back(std::move(g));
  }
}

CAUSEWAY_DECL void dialer::accept(const greeting& g) {
  if (g.id == id_) return net_.close(g.end, "this is a connection to itself", false);
  const auto ours = find(g.address);
  const bool crossing = ours != dials_.end() && !ours->second.refused && id_ < g.id;
  if (crossing || owner_.connected_to(g.id)) {
    say(g.end, content::refusal);
    return net_.close(g.end, "we have a connection already", true);
  }
  if (ours != dials_.end()) forget(ours->first);
  say(g.end, content::welcome);
  owner_.met(g.end, g.id, g.address);
}

CAUSEWAY_DECL void dialer::hear_welcome(end_ref end, const sent_message& message) {
  const auto dialled = find(end);
  if (dialled == dials_.end()) return net_.close(end, "not wanted any more", false);
  detach(dialled->second);
  forget(dialled->first);
  owner_.met(end, message.from_id, text_of(message));
}

CAUSEWAY_DECL void dialer::hear_refusal(end_ref end) {
  const auto dialled = find(end);
  if (dialled == dials_.end()) return;
  net_.close(end, "refused", false);
  detach(dialled->second);
  dialled->second.refused = true;
}

CAUSEWAY_DECL void dialer::forget(std::uint64_t tag) {
  const auto dialled = dials_.find(tag);
  net_.cancel_dial(dialled->second.attempt);
  net_.events().cancel(dialled->second.deadline);
  if (dialled->second.end.value != 0) net_.close(dialled->second.end, "not wanted any more", false);
  detach(dialled->second);
  by_address_.erase(dialled->second.address);
  dials_.erase(dialled);
}

CAUSEWAY_DECL void dialer::end_dial(std::uint64_t tag, const error& why) {
  const auto dialled = dials_.find(tag);
  if (dialled == dials_.end()) return;
  const std::string address = dialled->second.address;
  forget(tag);
  owner_.not_met(address, fail(why.code, address, why.message));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_DIALER_IPP
#endif

// ---- causeway/io/storage.hpp ----
#ifndef CAUSEWAY_IO_STORAGE_HPP
#define CAUSEWAY_IO_STORAGE_HPP

// What the library needs of a disk, so small that a simulator can stand in for it: whole files, written atomically. A file
// under its final name is either the old one or the complete new one; a writer that fails or dies leaves the old one.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

using byte_vector = std::vector<std::byte>;

/// Takes the next piece of a file. The piece is free again when the call returns.
using byte_sink = std::function<result<void>(std::span<const std::byte>)>;

/// Writes a whole file into a sink, piece by piece. Called once per write; an error of its own ends the write.
using byte_producer = std::function<result<void>(const byte_sink&)>;

/// Requirements. Paths use '/'. Safe to use from several threads for different paths.
///
/// - `write_atomic(path, producer)`: the new content replaces the old one at once, and is durable when the call succeeds.
///   Missing folders are made. On any failure the old content stays and nothing partial remains under `path`.
/// - `read(path)`: the whole content, or errc::not_found.
/// - `list(folder)`: names (without the folder) of the files right in it, sorted; errc::not_found if there is no such
///   folder. Unfinished writes of `write_atomic` may be listed; their names end in ".tmp".
/// - `remove(path)`: a file that is not there counts as removed.
template <class S>
concept Storage = Movable<S> && requires(S& s, const std::string& path, const byte_producer& producer) {
  { s.write_atomic(path, producer) } -> std::same_as<result<void>>;
  { s.read(path) } -> std::same_as<result<byte_vector>>;
  { s.list(path) } -> std::same_as<result<std::vector<std::string>>>;
  { s.remove(path) } -> std::same_as<result<void>>;
};

/// A producer of bytes that exist already; they must outlive the write.
CAUSEWAY_DECL byte_producer produce(std::span<const std::byte> content);

inline byte_producer produce(std::string_view text) { return produce(std::as_bytes(std::span{text.data(), text.size()})); }

/// Any storage, held by value. Copies share the storage. Thread-safe if the storage is.
class any_storage {
 public:
  template <class S>
    requires(!std::same_as<S, any_storage>)
  &&Storage<S> explicit any_storage(S storage) : state_{std::make_shared<model<S>>(std::move(storage))} {}

  CAUSEWAY_DECL result<void> write_atomic(const std::string& path, const byte_producer& producer);
  result<byte_vector> read(const std::string& path) { return state_->read(path); }
  result<std::vector<std::string>> list(const std::string& folder) { return state_->list(folder); }
  result<void> remove(const std::string& path) { return state_->remove(path); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual result<void> write_atomic(const std::string&, const byte_producer&) = 0;
    virtual result<byte_vector> read(const std::string&) = 0;
    virtual result<std::vector<std::string>> list(const std::string&) = 0;
    virtual result<void> remove(const std::string&) = 0;
  };

  template <class S>
  struct model final : interface {
    explicit model(S s) : storage{std::move(s)} {}
    result<void> write_atomic(const std::string& path, const byte_producer& producer) override {
      return storage.write_atomic(path, producer);
    }
    result<byte_vector> read(const std::string& path) override { return storage.read(path); }
    result<std::vector<std::string>> list(const std::string& folder) override { return storage.list(folder); }
    result<void> remove(const std::string& path) override { return storage.remove(path); }
    S storage;
  };

  std::shared_ptr<interface> state_;
};

static_assert(Storage<any_storage>);

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_STORAGE_HPP

// ---- causeway/io/impl/storage.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_IO_IMPL_STORAGE_IPP
#define CAUSEWAY_IO_IMPL_STORAGE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL byte_producer produce(std::span<const std::byte> content) {
  return [content](const byte_sink& sink) { return sink(content); };
}

CAUSEWAY_DECL result<void> any_storage::write_atomic(const std::string& path, const byte_producer& producer) {
  return state_->write_atomic(path, producer);
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_STORAGE_IPP
#endif

// ---- causeway/io/file_storage.hpp ----
#ifndef CAUSEWAY_IO_FILE_STORAGE_HPP
#define CAUSEWAY_IO_FILE_STORAGE_HPP

// Whole files, written atomically, out of what a file system offers. A write goes to a temporary file beside its target, is
// synced, renamed over the target, and the folder is synced: after a crash at any point the target is whole, old or new. A
// failed sync is never repeated on the same file, because the kernel may have dropped the pages and would then report
// success (Rebello et al. 2020). The file system is a parameter, so that a simulated disk can lose all that POSIX lets a
// disk lose.

#include <cerrno>
#include <mutex>
#include <set>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

/// What stands at a path where a folder is wanted.
enum class folder_state : std::uint8_t {
  missing,
  present,
  closed,  ///< there, but this process may not open it, so it made nothing in it that would have to be synced
};

/// Requirements: the calls of POSIX, one to one. Nothing is durable that was not synced. Paths use '/'. Safe to use from
/// several threads for different files. Errors as `os_error` makes them from errno.
///
/// - `create(path)`: an empty file open for writing; one that was there is emptied. `write` appends all of the bytes.
/// - `sync(file)`: fsync of content and length, not of the name. `sync_folder(folder)`: of the names in it.
/// - `rename(from, to)` replaces `to`. `unlink(path)`: errc::not_found if there is no such file.
/// - `make_folder(path)`: no error if another process was quicker. `remove_folder(path)`: an empty one.
/// - `list(folder)`: names of the regular files right in it, sorted. `read(path)`: the whole content.
/// - `process_id()`: differs between processes that write the same folder at the same time.
template <class F>
concept FileSystem = Movable<F> && std::move_constructible<typename F::file_type> &&
    requires(F& files, typename F::file_type& file, const std::string& path, std::span<const std::byte> bytes) {
  { files.create(path) } -> std::same_as<result<typename F::file_type>>;
  { files.write(file, bytes) } -> std::same_as<result<void>>;
  { files.sync(file) } -> std::same_as<result<void>>;
  { files.close(file) } -> std::same_as<result<void>>;
  { files.rename(path, path) } -> std::same_as<result<void>>;
  { files.unlink(path) } -> std::same_as<result<void>>;
  { files.sync_folder(path) } -> std::same_as<result<void>>;
  { files.look(path) } -> std::same_as<folder_state>;
  { files.make_folder(path) } -> std::same_as<result<void>>;
  { files.remove_folder(path) } -> std::same_as<result<void>>;
  { files.list(path) } -> std::same_as<result<std::vector<std::string>>>;
  { files.read(path) } -> std::same_as<result<byte_vector>>;
  { files.process_id() } -> ConvertibleTo<std::uint64_t>;
};

/// The error for an errno, with what to do about it.
CAUSEWAY_DECL error os_error(const std::string& path, const std::string& doing, int code);

namespace detail {

CAUSEWAY_DECL std::string folder_of(const std::string& path);

}  // namespace detail

/// Files of a file system; see Storage for what the members promise. Two processes may write the same path: one of the two
/// contents wins, whole. Copies share what they know about folders. Cost of a write: two syncs, and on the first one into a
/// folder a sync of every folder above it.
template <FileSystem F>
class basic_file_storage {
 public:
  basic_file_storage() requires DefaultInitializable<F> : basic_file_storage(F{}) {}
  explicit basic_file_storage(F files) : files_{std::move(files)}, known_{std::make_shared<known_folders>()} {}

  /// Errors: errc::disk_full (no space, quota or file size limit), errc::io_failed, or the producer's own. If the very last
  /// step fails, the sync of the folder, the new content is in place but may be gone after a crash.
  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
    const std::string folder = detail::folder_of(path);
    CAUSEWAY_TRY(prepare(folder));
    const std::string temporary = path + '.' + std::to_string(files_.process_id()) + ".tmp";
    auto finished = write_and_close(temporary, producer);
    if (finished) finished = files_.rename(temporary, path);
    if (!finished) {
      (void)files_.unlink(temporary);
      return finished;
    }
    return files_.sync_folder(folder);
  }

  result<byte_vector> read(const std::string& path) { return files_.read(path); }
  result<std::vector<std::string>> list(const std::string& folder) { return files_.list(folder); }

  result<void> remove(const std::string& path) {
    auto removed = files_.unlink(path);
    if (removed) return files_.sync_folder(detail::folder_of(path));
    if (removed.error().code == errc::not_found) return {};
    return removed;
  }

 private:
  struct known_folders {
    std::mutex mutex;
    std::set<std::string> durable;
  };

  result<void> write_and_close(const std::string& path, const byte_producer& producer) {
    CAUSEWAY_ASSIGN(typename F::file_type file, files_.create(path));
    CAUSEWAY_TRY(producer([&](std::span<const std::byte> piece) { return files_.write(file, piece); }));
    CAUSEWAY_TRY(files_.sync(file));
    return files_.close(file);
  }

  /// Makes `folder` and those above it durable. One that is there already may be the work of a process that died before it
  /// synced the folder above: everything in it would be lost with it.
  result<void> prepare(const std::string& folder) {
    const folder_state found = files_.look(folder);
    if (found != folder_state::missing && knows(folder)) return {};
    const std::string parent = detail::folder_of(folder);
    if (parent != folder) {
      CAUSEWAY_TRY(prepare(parent));
      CAUSEWAY_TRY(found == folder_state::missing ? make(folder, parent) : sync_if_open(parent));
    }
    const std::lock_guard lock{known_->mutex};
    known_->durable.insert(folder);
    return {};
  }

  result<void> make(const std::string& folder, const std::string& parent) {
    CAUSEWAY_TRY(files_.make_folder(folder));
    auto synced = files_.sync_folder(parent);
    if (!synced) (void)files_.remove_folder(folder);  // the next write makes it anew: a sync is not tried again
    return synced;
  }

  result<void> sync_if_open(const std::string& folder) {
    if (files_.look(folder) != folder_state::present) return {};
    return files_.sync_folder(folder);
  }

  bool knows(const std::string& folder) {
    const std::lock_guard lock{known_->mutex};
    return known_->durable.contains(folder);
  }

  F files_;
  std::shared_ptr<known_folders> known_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_FILE_STORAGE_HPP

// ---- causeway/io/impl/file_storage.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_IO_IMPL_FILE_STORAGE_IPP
#define CAUSEWAY_IO_IMPL_FILE_STORAGE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL error os_error(const std::string& path, const std::string& doing, int code) {
  const std::string reason = std::string{"could not "} + doing + ": " + std::strerror(code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return fail(errc::disk_full, path, reason + ". Free some space or choose another folder; older files are untouched");
    case ENOENT:
    case ENOTDIR: return fail(errc::not_found, path, reason + ". Check the path");
    case EACCES:
    case EPERM:
    case EROFS: return fail(errc::io_failed, path, reason + ". Check the owner and permissions of the file and its folder");
    case EIO:
      return fail(errc::io_failed, path, reason + ". The disk may be failing: look at the system log, use another disk");
    default: return fail(errc::io_failed, path, reason);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io { namespace detail {

CAUSEWAY_DECL std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::io::detail

#endif  // CAUSEWAY_IO_IMPL_FILE_STORAGE_IPP
#endif

// ---- causeway/sim/disk_file.hpp ----
#ifndef CAUSEWAY_SIM_DISK_FILE_HPP
#define CAUSEWAY_SIM_DISK_FILE_HPP

// One file of sim::disk: what processes see, and what of it is on the platter. The bytes are kept once; only pages that
// differ from the platter have their old bytes beside them. Every choice that a crash makes goes through one function, so
// that a test can try them all.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

using disk_choice = std::function<std::uint64_t(std::uint64_t bound)>;

/// The bytes of one file.
class disk_file {
 public:
  [[nodiscard]] const io::byte_vector& bytes() const noexcept { return bytes_; }

  CAUSEWAY_DECL void truncate(std::size_t page_bytes);

  CAUSEWAY_DECL void append(std::span<const std::byte> more, std::size_t page_bytes);

  /// All dirty pages go to the platter, and the length. What an earlier failed sync dropped does not: it is not dirty.
  CAUSEWAY_DECL void sync();

  /// A sync that fails: some pages are written, the rest are clean from now on all the same, as Linux has it.
  CAUSEWAY_DECL void lose(const disk_choice& choose);

  CAUSEWAY_DECL void crash(const disk_choice& choose, std::size_t page_bytes, std::size_t sector_bytes);

  /// Nothing differs from the platter.
  CAUSEWAY_DECL void mark_durable();

  void flip(std::uint64_t bit) { bytes_[bit / 8] ^= std::byte{1} << (bit % 8); }

 private:
  struct old_page {
    io::byte_vector bytes;  // on the platter; shorter than a page where the file ended, or for a new page
    bool dirty = true;      // false: dropped by a failed sync, so no later one writes it
  };

  CAUSEWAY_DECL void remember(std::size_t page, std::size_t page_bytes);

  // Puts into a page what a crash leaves of it: old, new, or torn between its sectors.
  CAUSEWAY_DECL void spoil(std::size_t begin, std::size_t page_bytes, std::size_t sector_bytes, const old_page& before,
                           const disk_choice& choose);

  // The lengths of the file since the last sync that end inside [begin, end).
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> earlier(std::size_t begin, std::size_t end) const;

  io::byte_vector bytes_;                  // what processes see
  std::map<std::size_t, old_page> pages_;  // that differ from the platter
  std::size_t durable_length_ = 0;
  std::vector<std::size_t> lengths_;  // since the last sync
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_DISK_FILE_HPP

// ---- causeway/sim/impl/disk_file.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_DISK_FILE_IPP
#define CAUSEWAY_SIM_IMPL_DISK_FILE_IPP

#include <algorithm>
#include <iterator>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL void disk_file::truncate(std::size_t page_bytes) {
  for (std::size_t page = 0; page * page_bytes < bytes_.size(); ++page) remember(page, page_bytes);
  bytes_.clear();
  lengths_.push_back(0);
}

CAUSEWAY_DECL void disk_file::append(std::span<const std::byte> more, std::size_t page_bytes) {
  if (more.empty()) return;
  const std::size_t end = bytes_.size() + more.size();
  for (std::size_t page = bytes_.size() / page_bytes; page * page_bytes < end; ++page) remember(page, page_bytes);
  bytes_.insert(bytes_.end(), more.begin(), more.end());
  lengths_.push_back(end);
}

CAUSEWAY_DECL void disk_file::sync() {
  std::erase_if(pages_, [](const auto& entry) { return entry.second.dirty; });
  durable_length_ = bytes_.size();
  lengths_.clear();
}

CAUSEWAY_DECL void disk_file::lose(const disk_choice& choose) {
  for (auto page = pages_.begin(); page != pages_.end();) {
    const bool written = page->second.dirty && choose(2) == 0;
    page->second.dirty = false;
    page = written ? pages_.erase(page) : std::next(page);
  }
  if (choose(2) == 0) durable_length_ = bytes_.size();
  lengths_.clear();
}

CAUSEWAY_DECL void disk_file::crash(const disk_choice& choose, std::size_t page_bytes, std::size_t sector_bytes) {
  if (pages_.empty() && lengths_.empty() && durable_length_ == bytes_.size()) return;
  const std::uint64_t drawn = choose(lengths_.size() + 1);
  const std::size_t length = drawn == 0 ? durable_length_ : lengths_[drawn - 1];
  bytes_.resize(std::max(length, bytes_.size()));
  for (const auto& [page, before] : pages_) spoil(page * page_bytes, page_bytes, sector_bytes, before, choose);
  bytes_.resize(length);
  mark_durable();
}

CAUSEWAY_DECL void disk_file::mark_durable() {
  pages_.clear();
  lengths_.clear();
  durable_length_ = bytes_.size();
}

CAUSEWAY_DECL void disk_file::remember(std::size_t page, std::size_t page_bytes) {
  const auto [entry, fresh] = pages_.try_emplace(page);
  entry->second.dirty = true;
  if (!fresh) return;
  const std::size_t begin = std::min(page * page_bytes, bytes_.size());
  const std::size_t end = std::min(begin + page_bytes, bytes_.size());
  entry->second.bytes.assign(bytes_.begin() + static_cast<std::ptrdiff_t>(begin),
                             bytes_.begin() + static_cast<std::ptrdiff_t>(end));
}

CAUSEWAY_DECL void disk_file::spoil(std::size_t begin, std::size_t page_bytes, std::size_t sector_bytes,
                                    const old_page& before, const disk_choice& choose) {
  const std::uint64_t fate = before.dirty ? choose(page_bytes > sector_bytes ? 3 : 2) : 0;
  for (std::size_t at = begin; at < std::min(begin + page_bytes, bytes_.size()); at += sector_bytes) {
    const std::size_t end = std::min(at + sector_bytes, bytes_.size());
    const std::uint64_t version = fate == 2 ? choose(2 + earlier(at, end).size()) : fate;
    if (version == 0) {
      for (std::size_t i = at; i < end; ++i)
        bytes_[i] = i - begin < before.bytes.size() ? before.bytes[i - begin] : std::byte{0};
    } else if (version > 1) {  // written back between two writes: the end of the sector was not there yet
      std::fill(bytes_.begin() + static_cast<std::ptrdiff_t>(earlier(at, end)[version - 2]),
                bytes_.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
    }
  }
}

CAUSEWAY_DECL std::vector<std::size_t> disk_file::earlier(std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> found;
  std::copy_if(lengths_.begin(), lengths_.end(), std::back_inserter(found),
               [&](std::size_t length) { return length > begin && length < end; });
  return found;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_DISK_FILE_IPP
#endif

// ---- causeway/sim/disk_tree.hpp ----
#ifndef CAUSEWAY_SIM_DISK_TREE_HPP
#define CAUSEWAY_SIM_DISK_TREE_HPP

// The folders of sim::disk and the files in them. A folder keeps its durable names and the changes since its last sync; a
// crash keeps any of those, in any order.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

/// The names in one folder. A change sets one name or two at once (rename); 0 means that the name is gone.
class disk_folder {
 public:
  using change = std::vector<std::pair<std::string, std::uint64_t>>;
  using names = std::map<std::string, std::uint64_t>;

  [[nodiscard]] const names& entries() const noexcept { return entries_; }

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t find(const std::string& name) const;

  CAUSEWAY_DECL void apply(change made);

  CAUSEWAY_DECL void sync();

  /// A sync that fails: each change was written, was dropped for good, or waits for another sync.
  CAUSEWAY_DECL void lose(const disk_choice& choose);

  CAUSEWAY_DECL void crash(const disk_choice& choose);

  /// Everything that a process sees or a crash may bring back.
  template <class Visit>
  void each_inode(Visit visit) const {
    for (const auto& [name, inode] : entries_) visit(inode);
    for (const auto& [name, inode] : durable_) visit(inode);
    for (const change& made : pending_) {
      for (const auto& [name, inode] : made) visit(inode);
    }
  }

 private:
  CAUSEWAY_DECL static void apply_to(names& where, const change& made);

  names entries_;
  names durable_;
  std::vector<change> pending_;
};

/// All of a disk's files and folders. Members give 0 or an errno.
class disk_tree {
 public:
  CAUSEWAY_DECL disk_tree(std::size_t page_bytes, std::size_t sector_bytes);

  CAUSEWAY_DECL int create(const std::string& path, std::uint64_t& inode);

  CAUSEWAY_DECL bool append(std::uint64_t inode, std::span<const std::byte> bytes);

  CAUSEWAY_DECL bool sync(std::uint64_t inode);

  CAUSEWAY_DECL void lose(std::uint64_t inode, const disk_choice& choose);

  CAUSEWAY_DECL int rename(const std::string& from, const std::string& to);

  CAUSEWAY_DECL int unlink(const std::string& path);

  CAUSEWAY_DECL int make_folder(const std::string& path);

  CAUSEWAY_DECL int remove_folder(const std::string& path);

  CAUSEWAY_DECL int sync_folder(const std::string& path);

  CAUSEWAY_DECL void lose_names(const std::string& path, const disk_choice& choose);

  [[nodiscard]] bool is_folder(const std::string& path) { return folder_at(path) != nullptr; }

  CAUSEWAY_DECL int list(const std::string& path, std::vector<std::string>& names);

  CAUSEWAY_DECL [[nodiscard]] const io::byte_vector* content(const std::string& path);

  /// Bytes of all files that have a name.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t used() const;

  CAUSEWAY_DECL bool flip(const std::string& path, std::uint64_t bit);

  /// Flips the n-th bit of all files that have a name, laid end to end.
  CAUSEWAY_DECL bool flip_nth(std::uint64_t bit);

  CAUSEWAY_DECL void crash(const disk_choice& choose);

 private:
  static constexpr std::uint64_t root = 1;

  struct place {
    disk_folder* folder;  // that `name` is in, nullptr if there is none
    std::string name;     // empty: the root itself
  };

  // Follows a path to its last part. Empty parts and "." count for nothing.
  CAUSEWAY_DECL place resolve(const std::string& path);

  CAUSEWAY_DECL disk_folder* inside(const place& at);

  CAUSEWAY_DECL disk_folder* folder_at(const std::string& path);

  CAUSEWAY_DECL disk_file* file_at(const std::string& path);

  // The files that processes can find.
  CAUSEWAY_DECL [[nodiscard]] std::set<std::uint64_t> named() const;

  // Forgets what neither a process nor a crash can bring back.
  CAUSEWAY_DECL void collect();

  std::size_t page_bytes_;
  std::size_t sector_bytes_;
  std::uint64_t next_ = root + 1;
  std::map<std::uint64_t, disk_file> files_;
  std::map<std::uint64_t, disk_folder> folders_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_DISK_TREE_HPP

// ---- causeway/sim/impl/disk_tree.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_DISK_TREE_IPP
#define CAUSEWAY_SIM_IMPL_DISK_TREE_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::uint64_t disk_folder::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? 0 : found->second;
}

CAUSEWAY_DECL void disk_folder::apply(change made) {
  apply_to(entries_, made);
  pending_.push_back(std::move(made));
}

CAUSEWAY_DECL void disk_folder::sync() {
  for (const change& made : pending_) apply_to(durable_, made);
  pending_.clear();
}

CAUSEWAY_DECL void disk_folder::lose(const disk_choice& choose) {
  std::erase_if(pending_, [&](const change& made) {
    const std::uint64_t fate = choose(3);
    if (fate == 0) apply_to(durable_, made);
    return fate != 2;
  });
}

CAUSEWAY_DECL void disk_folder::crash(const disk_choice& choose) {
  std::vector<change> written;
  for (const change& made : pending_) {
    if (choose(2) == 1) written.push_back(made);
  }
  for (std::size_t i = written.size(); i > 1; --i) std::swap(written[i - 1], written[i - 1 - choose(i)]);
  for (const change& made : written) apply_to(durable_, made);
  entries_ = durable_;
  pending_.clear();
}

CAUSEWAY_DECL void disk_folder::apply_to(names& where, const change& made) {
  for (const auto& [name, inode] : made) {
    if (inode == 0) {
      where.erase(name);
    } else {
      where[name] = inode;
    }
  }
}

CAUSEWAY_DECL disk_tree::disk_tree(std::size_t page_bytes, std::size_t sector_bytes)
    : page_bytes_{page_bytes}, sector_bytes_{sector_bytes}, folders_{{root, {}}} {}

CAUSEWAY_DECL int disk_tree::create(const std::string& path, std::uint64_t& inode) {
  const place at = resolve(path);
  if (at.folder == nullptr) return ENOENT;
  inode = at.folder->find(at.name);
  if (inode == 0) {
    inode = next_++;
    at.folder->apply({{at.name, inode}});
    files_.try_emplace(inode);
    return 0;
  }
  if (folders_.contains(inode)) return EISDIR;
  files_[inode].truncate(page_bytes_);
  return 0;
}

CAUSEWAY_DECL bool disk_tree::append(std::uint64_t inode, std::span<const std::byte> bytes) {
  const auto file = files_.find(inode);
  if (file == files_.end()) return false;
  file->second.append(bytes, page_bytes_);
  return true;
}

CAUSEWAY_DECL bool disk_tree::sync(std::uint64_t inode) {
  const auto file = files_.find(inode);
  if (file == files_.end()) return false;
  file->second.sync();
  return true;
}

CAUSEWAY_DECL void disk_tree::lose(std::uint64_t inode, const disk_choice& choose) {
  const auto file = files_.find(inode);
  if (file != files_.end()) file->second.lose(choose);
}

CAUSEWAY_DECL int disk_tree::rename(const std::string& from, const std::string& to) {
  const place source = resolve(from);
  const place target = resolve(to);
  if (source.folder == nullptr || target.folder == nullptr) return ENOENT;
  const std::uint64_t inode = source.folder->find(source.name);
  if (inode == 0) return ENOENT;
  if (folders_.contains(inode)) return EXDEV;  // nobody here renames folders
  if (folders_.contains(target.folder->find(target.name))) return EISDIR;
  if (source.folder == target.folder) {
    if (source.name != target.name) source.folder->apply({{target.name, inode}, {source.name, 0}});
    return 0;
  }
  target.folder->apply({{target.name, inode}});  // two folders: two changes, and a crash may keep either
  source.folder->apply({{source.name, 0}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::unlink(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr || at.folder->find(at.name) == 0) return ENOENT;
  if (folders_.contains(at.folder->find(at.name))) return EISDIR;
  at.folder->apply({{at.name, 0}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::make_folder(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr) return ENOENT;
  if (at.name.empty() || at.folder->find(at.name) != 0) return EEXIST;
  folders_.try_emplace(next_);
  at.folder->apply({{at.name, next_++}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::remove_folder(const std::string& path) {
  const disk_folder* folder = folder_at(path);
  if (folder == nullptr) return ENOENT;
  if (!folder->entries().empty()) return ENOTEMPTY;
  const place at = resolve(path);
  if (at.name.empty()) return EBUSY;
  at.folder->apply({{at.name, 0}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::sync_folder(const std::string& path) {
  disk_folder* folder = folder_at(path);
  if (folder == nullptr) return ENOENT;
  folder->sync();
  collect();
  return 0;
}

CAUSEWAY_DECL void disk_tree::lose_names(const std::string& path, const disk_choice& choose) {
  if (disk_folder* folder = folder_at(path)) folder->lose(choose);
}

CAUSEWAY_DECL int disk_tree::list(const std::string& path, std::vector<std::string>& names) {
  const disk_folder* folder = folder_at(path);
  if (folder == nullptr) return ENOENT;
  for (const auto& [name, inode] : folder->entries()) {
    if (files_.contains(inode)) names.push_back(name);
  }
  return 0;
}

CAUSEWAY_DECL const io::byte_vector* disk_tree::content(const std::string& path) {
  const disk_file* file = file_at(path);
  return file == nullptr ? nullptr : &file->bytes();
}

CAUSEWAY_DECL std::uint64_t disk_tree::used() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t inode : named()) sum += files_.at(inode).bytes().size();
  return sum;
}

CAUSEWAY_DECL bool disk_tree::flip(const std::string& path, std::uint64_t bit) {
  disk_file* file = file_at(path);
  if (file == nullptr || file->bytes().empty()) return false;
  file->flip(bit % (8 * file->bytes().size()));
  return true;
}

CAUSEWAY_DECL bool disk_tree::flip_nth(std::uint64_t bit) {
  for (const std::uint64_t inode : named()) {
    disk_file& file = files_.at(inode);
    if (bit < 8 * file.bytes().size()) {
      file.flip(bit);
      return true;
    }
    bit -= 8 * file.bytes().size();
  }
  return false;
}

CAUSEWAY_DECL void disk_tree::crash(const disk_choice& choose) {
  for (auto& [inode, folder] : folders_) folder.crash(choose);
  collect();  // first, so that no choices are made about files that nobody can find
  for (auto& [inode, file] : files_) file.crash(choose, page_bytes_, sector_bytes_);
}

CAUSEWAY_DECL auto disk_tree::resolve(const std::string& path) -> place {
  place at{&folders_.at(root), {}};
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t slash = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, slash - begin);
    begin = slash + 1;
    if (part.empty() || part == ".") continue;
    if (!at.name.empty()) at.folder = inside(at);
    if (at.folder == nullptr) return at;
    at.name = std::move(part);
  }
  return at;
}

CAUSEWAY_DECL disk_folder* disk_tree::inside(const place& at) {
  const auto found = folders_.find(at.folder->find(at.name));
  return found == folders_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL disk_folder* disk_tree::folder_at(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr || at.name.empty()) return at.folder;
  return inside(at);
}

CAUSEWAY_DECL disk_file* disk_tree::file_at(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr) return nullptr;
  const auto found = files_.find(at.folder->find(at.name));
  return found == files_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL std::set<std::uint64_t> disk_tree::named() const {
  std::set<std::uint64_t> found;
  std::vector<std::uint64_t> open{root};
  while (!open.empty()) {
    const auto& folder = folders_.at(open.back());
    open.pop_back();
    for (const auto& [name, inode] : folder.entries()) {
      if (files_.contains(inode)) {
        found.insert(inode);
      } else {
        open.push_back(inode);
      }
    }
  }
  return found;
}

CAUSEWAY_DECL void disk_tree::collect() {
  std::set<std::uint64_t> kept{root};
  std::vector<std::uint64_t> open{root};
  while (!open.empty()) {
    const auto folder = folders_.find(open.back());
    open.pop_back();
    if (folder == folders_.end()) continue;
    folder->second.each_inode([&](std::uint64_t inode) {
      if (inode != 0 && kept.insert(inode).second) open.push_back(inode);
    });
  }
  std::erase_if(files_, [&](const auto& entry) { return !kept.contains(entry.first); });
  std::erase_if(folders_, [&](const auto& entry) { return !kept.contains(entry.first); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_DISK_TREE_IPP
#endif

// ---- causeway/sim/disk.hpp ----
#ifndef CAUSEWAY_SIM_DISK_HPP
#define CAUSEWAY_SIM_DISK_HPP

// A disk in memory that loses what POSIX lets a disk lose. Processes see the page cache; a crash leaves the platter and
// whatever part of the rest had been written back by chance: any subset of the pages of a file that were not synced, torn
// between sectors, any of the lengths that the file had meanwhile, and any subset and order of the names that were made,
// replaced or removed in a folder since it was synced. Only fsync of a file makes its bytes durable, only fsync of the
// folder its name. `io::basic_file_storage<sim::disk>` is a Storage on it. Everything is a function of the seed.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

struct disk_options {
  std::uint64_t seed = 0;
  std::size_t page_bytes = 4096;   ///< what the kernel writes back at once; a multiple of sector_bytes
  std::size_t sector_bytes = 512;  ///< what the disk writes whole or not at all; page_bytes: pages are never torn
};

/// What goes wrong. Calls are counted from 1 since `set_faults`; each but halt and capacity happens once.
struct disk_faults {
  static constexpr std::uint64_t never = 0;
  static constexpr std::uint64_t unlimited = ~std::uint64_t{0};

  std::uint64_t fail_create = never;       ///< EIO
  std::uint64_t fail_write = never;        ///< EIO, after a part of the bytes
  std::uint64_t fail_sync = never;         ///< EIO; some dirty pages were written, the others are dropped for good
  std::uint64_t fail_sync_folder = never;  ///< EIO; the same with names
  std::uint64_t fail_rename = never;       ///< EIO
  std::uint64_t fail_unlink = never;       ///< EIO
  std::uint64_t fail_read = never;         ///< EIO
  std::uint64_t halt = never;  ///< counts all calls that change something: until crash or kill, it and all after fail
  std::uint64_t capacity = unlimited;  ///< bytes in all files; beyond it ENOSPC, after the part that fits
};

/// How long it takes. Nothing by default.
struct disk_timing {
  double bytes_per_s = std::numeric_limits<double>::infinity();  ///< of writing
  duration sync{0};                                              ///< each fsync, of a file or a folder
};

/// Models io::FileSystem. Copies share one disk. Thread-safe.
class disk {
 public:
  /// An open file. Useless after a crash or kill.
  struct file_type {
    std::uint64_t inode = 0;
    std::uint64_t life = 0;
    std::string path;
  };

  /// Draws from [0, bound): decides what a crash leaves.
  using chooser = std::function<std::uint64_t(std::uint64_t bound)>;

  CAUSEWAY_DECL explicit disk(disk_options options = {});

  // ---- what a process may call: io::FileSystem ------------------------------------------------------------------------

  CAUSEWAY_DECL result<file_type> create(const std::string& path);
  CAUSEWAY_DECL result<void> write(file_type& file, std::span<const std::byte> bytes);
  CAUSEWAY_DECL result<void> sync(file_type& file);
  CAUSEWAY_DECL result<void> close(file_type& file);
  CAUSEWAY_DECL result<void> rename(const std::string& from, const std::string& to);
  CAUSEWAY_DECL result<void> unlink(const std::string& path);
  CAUSEWAY_DECL result<void> sync_folder(const std::string& folder);
  CAUSEWAY_DECL io::folder_state look(const std::string& path);
  CAUSEWAY_DECL result<void> make_folder(const std::string& path);
  CAUSEWAY_DECL result<void> remove_folder(const std::string& path);
  CAUSEWAY_DECL result<std::vector<std::string>> list(const std::string& folder);
  CAUSEWAY_DECL result<io::byte_vector> read(const std::string& path);
  [[nodiscard]] std::uint64_t process_id() const;

  // ---- what happens to it ---------------------------------------------------------------------------------------------

  /// Replaces the faults and starts their counting anew.
  CAUSEWAY_DECL void set_faults(const disk_faults& faults);

  /// Writing and fsync take time from now on: `waiter` is asked to let it pass, before the call does anything.
  using waiter = std::function<void(duration)>;
  void set_waiter(waiter wait);
  void set_timing(const disk_timing& timing);
  [[nodiscard]] disk_timing timing() const;

  /// Calls so far that change something, those that failed included.
  [[nodiscard]] std::uint64_t operations() const;

  /// Power loss and reboot: afterwards the disk holds one of the states that the calls so far allow, drawn from the seed or
  /// by `choose`. Faults and open files are gone.
  CAUSEWAY_DECL void crash();
  CAUSEWAY_DECL void crash(const chooser& choose);

  /// The process dies, the machine lives: nothing is lost but open files and faults.
  CAUSEWAY_DECL void kill();

  /// Flips a bit (modulo the file's length) where it lies on the platter. errc::not_found; an empty file has none.
  CAUSEWAY_DECL result<void> flip(const std::string& path, std::uint64_t bit);

  /// Flips a bit somewhere in the files, drawn from the seed. False if there is not a byte.
  CAUSEWAY_DECL bool flip_any();

  /// An independent disk in the same state.
  CAUSEWAY_DECL [[nodiscard]] disk clone() const;

 private:
  struct shared {
    CAUSEWAY_DECL explicit shared(const disk_options& o);
    shared(const shared& other) = default;

    disk_options options;
    disk_faults faults;
    disk_timing timing;
    waiter wait;
    disk_faults seen{.capacity = 0};  // counts of calls since set_faults
    detail::disk_tree tree;
    rng draws;
    std::uint64_t operations = 0;
    std::uint64_t life = 0;
    std::uint64_t process = 1;
    bool running = true;

    CAUSEWAY_DECL [[nodiscard]] chooser choice();
    CAUSEWAY_DECL void next_life();
    /// Counts a call that changes something. False: the disk stops now, although this call may yet have taken place.
    CAUSEWAY_DECL bool count();
    static bool hits(std::uint64_t& count, std::uint64_t fault) { return ++count == fault; }
  };

  /// The lock, and the state without the mutex, so that it can be copied.
  struct locked {
    std::unique_lock<std::mutex> lock;
    shared* operator->() const { return state; }
    shared* state;
  };
  CAUSEWAY_DECL [[nodiscard]] locked open() const;

  /// Without the lock: others may use the disk meanwhile.
  CAUSEWAY_DECL void let_pass(duration d) const;

  CAUSEWAY_DECL static error halted(const std::string& path);
  CAUSEWAY_DECL static result<void> outcome(int code, const std::string& path, const char* doing);

  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::shared_ptr<shared> shared_;
};

inline std::uint64_t disk::process_id() const { return open()->process; }

inline void disk::set_waiter(waiter wait) { open()->wait = std::move(wait); }
inline void disk::set_timing(const disk_timing& timing) { open()->timing = timing; }
inline disk_timing disk::timing() const { return open()->timing; }

inline std::uint64_t disk::operations() const { return open()->operations; }

static_assert(io::FileSystem<disk>);

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_DISK_HPP

// ---- causeway/sim/impl/disk.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_DISK_IPP
#define CAUSEWAY_SIM_IMPL_DISK_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL disk::disk(disk_options options) : shared_{std::make_shared<shared>(options)} {}

CAUSEWAY_DECL disk::locked disk::open() const { return {std::unique_lock{*mutex_}, shared_.get()}; }

CAUSEWAY_DECL error disk::halted(const std::string& path) {
  return io::os_error(path, "reach the disk, which has stopped", EIO);
}

CAUSEWAY_DECL disk::shared::shared(const disk_options& o) : options{o}, tree{o.page_bytes, o.sector_bytes}, draws{o.seed} {}

CAUSEWAY_DECL auto disk::shared::choice() -> chooser {
  return [this](std::uint64_t bound) { return draws.below(bound); };
}

CAUSEWAY_DECL void disk::shared::next_life() {
  ++life;
  process += draws.below(2);  // a restarted process may get the same id again
  faults = {};
  running = true;
}

CAUSEWAY_DECL bool disk::shared::count() {
  ++operations;
  if (++seen.halt == faults.halt) running = false;
  return running;
}

CAUSEWAY_DECL void disk::let_pass(duration d) const {
  if (d <= duration{0}) return;
  const waiter wait = open()->wait;
  if (wait) wait(d);
}

CAUSEWAY_DECL result<void> disk::outcome(int code, const std::string& path, const char* doing) {
  if (code == 0) return {};
  return io::os_error(path, doing, code);
}

CAUSEWAY_DECL result<disk::file_type> disk::create(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_create, self->faults.fail_create)) return io::os_error(path, "open it", EIO);
  std::uint64_t inode = 0;
  const int code = self->tree.create(path, inode);
  if (code != 0) return io::os_error(path, "open it", code);
  if (!on) return halted(path);
  return file_type{inode, self->life, path};
}

CAUSEWAY_DECL result<void> disk::write(file_type& file, std::span<const std::byte> bytes) {
  const double took = static_cast<double>(bytes.size()) / timing().bytes_per_s;
  let_pass(duration{std::llround(std::min(took, 1e9) * 1e9)});
  const locked self = open();
  if (!self->running) return halted(file.path);
  const bool on = self->count();
  if (file.life != self->life) return io::os_error(file.path, "write to it", EBADF);
  int code = 0;
  if (disk::shared::hits(self->seen.fail_write, self->faults.fail_write)) {
    code = EIO;
    bytes = bytes.first(self->draws.below(bytes.size() + 1));
  }
  if (self->faults.capacity != disk_faults::unlimited) {
    const std::uint64_t used = self->tree.used();
    const std::uint64_t space = self->faults.capacity > used ? self->faults.capacity - used : 0;
    if (bytes.size() > space) {
      code = ENOSPC;
      bytes = bytes.first(space);
    }
  }
  if (!self->tree.append(file.inode, bytes)) code = EBADF;
  if (!on) return halted(file.path);
  return outcome(code, file.path, "write to it");
}

CAUSEWAY_DECL result<void> disk::sync(file_type& file) {
  let_pass(timing().sync);
  const locked self = open();
  if (!self->running || !self->count()) return halted(file.path);
  if (file.life != self->life) return io::os_error(file.path, "make it durable (fsync)", EBADF);
  const bool fails = disk::shared::hits(self->seen.fail_sync, self->faults.fail_sync);
  if (fails) {
    self->tree.lose(file.inode, self->choice());
    return io::os_error(file.path, "make it durable (fsync)", EIO);
  }
  return outcome(self->tree.sync(file.inode) ? 0 : EBADF, file.path, "make it durable (fsync)");
}

CAUSEWAY_DECL result<void> disk::close(file_type& file) {
  const locked self = open();
  if (!self->running) return halted(file.path);
  if (file.life != self->life) return io::os_error(file.path, "close it", EBADF);
  file.life = ~std::uint64_t{0};
  return {};
}

CAUSEWAY_DECL result<void> disk::rename(const std::string& from, const std::string& to) {
  const locked self = open();
  if (!self->running) return halted(to);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_rename, self->faults.fail_rename)) {
    return io::os_error(to, "rename the finished file to its final name", EIO);
  }
  const int code = self->tree.rename(from, to);
  if (!on) return halted(to);
  return outcome(code, to, "rename the finished file to its final name");
}

CAUSEWAY_DECL result<void> disk::unlink(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_unlink, self->faults.fail_unlink)) return io::os_error(path, "remove it", EIO);
  const int code = self->tree.unlink(path);
  if (!on) return halted(path);
  return outcome(code, path, "remove it");
}

CAUSEWAY_DECL result<void> disk::sync_folder(const std::string& folder) {
  let_pass(timing().sync);
  const locked self = open();
  if (!self->running || !self->count()) return halted(folder);
  if (disk::shared::hits(self->seen.fail_sync_folder, self->faults.fail_sync_folder)) {
    self->tree.lose_names(folder, self->choice());
    return io::os_error(folder, "make the folder durable (fsync)", EIO);
  }
  return outcome(self->tree.sync_folder(folder), folder, "make the folder durable (fsync)");
}

CAUSEWAY_DECL io::folder_state disk::look(const std::string& path) {
  const locked self = open();
  return self->running && self->tree.is_folder(path) ? io::folder_state::present : io::folder_state::missing;
}

CAUSEWAY_DECL result<void> disk::make_folder(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  const int code = self->tree.make_folder(path);
  if (!on) return halted(path);
  return outcome(code == EEXIST ? 0 : code, path, "make the folder");
}

CAUSEWAY_DECL result<void> disk::remove_folder(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  const int code = self->tree.remove_folder(path);
  if (!on) return halted(path);
  return outcome(code, path, "remove the folder");
}

CAUSEWAY_DECL result<std::vector<std::string>> disk::list(const std::string& folder) {
  const locked self = open();
  if (!self->running) return halted(folder);
  std::vector<std::string> names;
  const int code = self->tree.list(folder, names);
  if (code != 0) return io::os_error(folder, "list the folder", code);
  return names;
}

CAUSEWAY_DECL result<io::byte_vector> disk::read(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  if (disk::shared::hits(self->seen.fail_read, self->faults.fail_read)) return io::os_error(path, "read it", EIO);
  const io::byte_vector* content = self->tree.content(path);
  if (content == nullptr) return io::os_error(path, "open it", ENOENT);
  return *content;
}

CAUSEWAY_DECL void disk::set_faults(const disk_faults& faults) {
  const locked self = open();
  self->faults = faults;
  self->seen = {.capacity = 0};
}

CAUSEWAY_DECL void disk::crash() {
  const chooser choose = open()->choice();  // the lock is free again after this line
  crash(choose);
}

CAUSEWAY_DECL void disk::crash(const chooser& choose) {
  const locked self = open();
  self->tree.crash(choose);
  self->next_life();
}

CAUSEWAY_DECL void disk::kill() {
  const locked self = open();
  self->next_life();
}

CAUSEWAY_DECL result<void> disk::flip(const std::string& path, std::uint64_t bit) {
  const locked self = open();
  return outcome(self->tree.flip(path, bit) ? 0 : ENOENT, path, "flip a bit of it");
}

CAUSEWAY_DECL bool disk::flip_any() {
  const locked self = open();
  const std::uint64_t bytes = self->tree.used();
  return bytes != 0 && self->tree.flip_nth(self->draws.below(8 * bytes));
}

CAUSEWAY_DECL disk disk::clone() const {
  disk copy;
  copy.shared_ = std::make_shared<shared>(*open().state);
  return copy;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_DISK_IPP
#endif

// ---- causeway/net/operations.hpp ----
#ifndef CAUSEWAY_NET_OPERATIONS_HPP
#define CAUSEWAY_NET_OPERATIONS_HPP

// The sends and receives that were started and not yet waited for. A handle carries its slot and the slot's generation, so
// that an old handle never names a newer operation. Not thread-safe: its owner locks.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

using slot_index = std::uint32_t;
inline constexpr slot_index no_slot = UINT32_MAX;

/// One send or receive. Its buffer belongs to the caller; nobody touches it once `done`.
struct pending_operation {
  bool is_send = false;
  bool used = false;
  bool done = false;
  peer_index peer = 0;
  message_id id = {};
  const std::byte* source = nullptr;  ///< of a send
  std::byte* target = nullptr;        ///< of a receive
  std::size_t length = 0;             ///< bytes to send, or room to receive into
  std::size_t taken = 0;              ///< bytes of a send that streams took over so far
  std::size_t moved = 0;              ///< bytes that are through
  std::uint64_t sequence = 0;         ///< of a send, once its first chunk was taken
  std::uint32_t generation = 0;
  time_point since = {};
  std::shared_ptr<const error> failure = {};  ///< few fail, and of a thousand peers each has thousands of operations
};

class operation_table {
 public:
  CAUSEWAY_DECL slot_index start(const pending_operation& what);

  pending_operation& operator[](slot_index slot) { return slots_[slot]; }

  /// Slots so far, used or free.
  [[nodiscard]] slot_index size() const noexcept { return static_cast<slot_index>(slots_.size()); }

  CAUSEWAY_DECL [[nodiscard]] operation handle(slot_index slot) const;

  /// The slot that a handle names, or `no_slot`.
  CAUSEWAY_DECL [[nodiscard]] slot_index find(operation handle) const;

  /// Whether it has ended, or was never there.
  CAUSEWAY_DECL [[nodiscard]] bool done(operation handle) const;

  void finish(slot_index slot) { slots_[slot].done = true; }

  CAUSEWAY_DECL void finish(slot_index slot, error failure);

  /// The outcome of a finished operation; its slot becomes free.
  CAUSEWAY_DECL result<std::size_t> release(slot_index slot);

  /// Calls `visit(slot)`, which may finish operations but start none.
  template <class F>
  void for_each_unfinished_slot(F&& visit) const {
    for (slot_index slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].used && !slots_[slot].done) visit(slot);
    }
  }

  template <class F>
  void for_each_unfinished(F&& visit) const {
    for (const pending_operation& op : slots_) {
      if (op.used && !op.done) visit(op);
    }
  }

 private:
  std::vector<pending_operation> slots_;
  std::vector<slot_index> free_;
};

inline std::string peer_name(peer_index peer) { return "peer " + std::to_string(peer); }

/// "channel 1, epoch 0, step 12".
CAUSEWAY_DECL std::string to_text(const message_id& id);

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_OPERATIONS_HPP

// ---- causeway/net/impl/operations.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_OPERATIONS_IPP
#define CAUSEWAY_NET_IMPL_OPERATIONS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL slot_index operation_table::start(const pending_operation& what) {
  slot_index slot = no_slot;
  if (free_.empty()) {
    slot = static_cast<slot_index>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  const std::uint32_t generation = slots_[slot].generation + 1;
  slots_[slot] = what;
  slots_[slot].used = true;
  slots_[slot].generation = generation;
  return slot;
}

CAUSEWAY_DECL operation operation_table::handle(slot_index slot) const {
  return operation{slots_[slot].generation} << 32U | (operation{slot} + 1);
}

CAUSEWAY_DECL slot_index operation_table::find(operation handle) const {
  const auto slot = static_cast<slot_index>((handle & UINT32_MAX) - 1);
  const bool known = slot < slots_.size() && slots_[slot].used && slots_[slot].generation == handle >> 32U;
  return known ? slot : no_slot;
}

CAUSEWAY_DECL bool operation_table::done(operation handle) const {
  const slot_index slot = find(handle);
  return slot == no_slot || slots_[slot].done;
}

CAUSEWAY_DECL void operation_table::finish(slot_index slot, error failure) {
  slots_[slot].failure = std::make_shared<const error>(std::move(failure));
  slots_[slot].done = true;
}

CAUSEWAY_DECL result<std::size_t> operation_table::release(slot_index slot) {
  pending_operation& op = slots_[slot];
  op.used = false;
  free_.push_back(slot);
  if (op.failure) return *op.failure;
  return op.moved;
}

CAUSEWAY_DECL std::string to_text(const message_id& id) {
  return "channel " + std::to_string(id.channel) + ", epoch " + std::to_string(id.epoch) + ", step " +
         std::to_string(id.step);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_OPERATIONS_IPP
#endif

// ---- causeway/net/epochs.hpp ----
#ifndef CAUSEWAY_NET_EPOCHS_HPP
#define CAUSEWAY_NET_EPOCHS_HPP

// Epochs of data messages are of two kinds. Those of views end with the next view; lasting ones, in the upper half of the
// numbers, are of conversations that go on while views come and go, and end only with a later lasting one.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

inline constexpr std::uint32_t first_lasting_epoch = std::uint32_t{1} << 31U;

/// The lasting epoch of what has this number: numbers only grow.
constexpr std::uint32_t lasting_epoch(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number) | first_lasting_epoch;
}

/// Which epochs are over, of each kind. A regular value.
class past_epochs {
 public:
  constexpr past_epochs() = default;
  constexpr explicit past_epochs(std::uint32_t epoch) noexcept { end_before(epoch); }

  /// Epochs before this one are over, of its kind. False: they were already.
  constexpr bool end_before(std::uint32_t epoch) noexcept {
    std::uint32_t& first = first_[kind_of(epoch)];
    if (epoch <= first) return false;
    first = epoch;
    return true;
  }
  [[nodiscard]] constexpr bool contains(std::uint32_t epoch) const noexcept { return epoch < first_[kind_of(epoch)]; }
  /// Of each kind the first that is not over.
  [[nodiscard]] constexpr const std::array<std::uint32_t, 2>& ends() const noexcept { return first_; }

 private:
  static constexpr std::size_t kind_of(std::uint32_t epoch) noexcept { return epoch < first_lasting_epoch ? 0 : 1; }

  std::array<std::uint32_t, 2> first_{0, first_lasting_epoch};
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_EPOCHS_HPP

// ---- causeway/sim/mailbox.hpp ----
#ifndef CAUSEWAY_SIM_MAILBOX_HPP
#define CAUSEWAY_SIM_MAILBOX_HPP

// The sends and receives that one fabric has under way, and the data messages that came before their receive, for all its
// links. Same rules as between real peers: a message is matched by link, channel, epoch and step, in order; one about
// another parent or longer than the buffer is refused; one that nobody asked for yet is kept; one whose receive was given
// up is dropped. Knows nothing of connections.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

using net::detail::slot_index;

class mailbox {
 public:
  CAUSEWAY_DECL explicit mailbox(traffic& counters);

  /// What errors call the peer of a new link.
  CAUSEWAY_DECL void add_link(std::string name);
  CAUSEWAY_DECL void rename(net::peer_index link, std::string name);
  [[nodiscard]] const std::string& name(net::peer_index link) const { return links_[link].name; }

  // ---- operations ------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL slot_index start_send(net::peer_index link, const net::message_id& id, std::size_t bytes, time_point now,
                                      bool up);

  /// Ends at once if its message is here already; of a lost peer too.
  CAUSEWAY_DECL slot_index start_receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer,
                                         time_point now, bool up);

  [[nodiscard]] net::operation handle(slot_index slot) const { return operations_.handle(slot); }
  [[nodiscard]] slot_index find(net::operation op) const { return operations_.find(op); }
  [[nodiscard]] bool done(slot_index slot) { return operations_[slot].done; }
  [[nodiscard]] bool ended(net::operation op) const { return operations_.done(op); }
  [[nodiscard]] const net::detail::pending_operation& at(slot_index slot) { return operations_[slot]; }
  result<std::size_t> release(slot_index slot) { return operations_.release(slot); }

  /// The last piece of a send is on the wire. False: nobody waits for that.
  CAUSEWAY_DECL bool sent(slot_index slot, std::size_t header_bytes);

  /// An operation is given up before it ended. The caller must stop a send on its way.
  CAUSEWAY_DECL result<std::size_t> give_up(slot_index slot, errc code, const char* why);

  // ---- messages --------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void arrived(net::peer_index link, sent_message_ptr message);

  // ---- ends ------------------------------------------------------------------------------------------------------------

  /// The connection is over: ends all that is under way on it. Whole messages stay and can be received.
  CAUSEWAY_DECL void fail_link(net::peer_index link, const error& why);

  /// The network is no longer there: nothing of it may be kept.
  CAUSEWAY_DECL void fail_everything(const error& why);

  /// What belongs to epochs before `epoch`, of its kind, is over: operations end, kept messages go, late ones are refused.
  /// Calls `stop_send(slot)` for every send that was under way.
  template <class F>
  void cancel_before(std::uint32_t epoch, F&& stop_send) {
    past_.end_before(epoch);
    const net::past_epochs over{epoch};
    for (box& b : links_) {
      std::erase_if(b.open, [&](slot_index slot) { return over.contains(operations_[slot].id.epoch); });
      std::erase_if(b.given_up, [&](const net::message_id& id) { return over.contains(id.epoch); });
      std::erase_if(b.kept, [&](const sent_message_ptr& m) {
        if (!over.contains(m->id.epoch)) return false;
        kept_bytes_ -= cost(*m);
        return true;
      });
    }
    for_each_unfinished([&](slot_index slot) {
      if (!over.contains(operations_[slot].id.epoch)) return;
      if (operations_[slot].is_send) stop_send(slot);
      operations_.finish(slot, called_off(operations_[slot].peer));
    });
  }

  // ---- questions -------------------------------------------------------------------------------------------------------

  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_bytes_; }
  [[nodiscard]] bool wants_anything(net::peer_index link) const { return !links_[link].open.empty(); }

  CAUSEWAY_DECL [[nodiscard]] std::string describe(time_point now) const;

 private:
  static constexpr std::size_t remembered_cancels = 256;
  static constexpr std::size_t message_cost = 256;  // what an empty message counts

  struct box {
    std::string name;
    std::vector<slot_index> open;  ///< receives without a message, oldest first
    std::vector<net::message_id> given_up;
    std::vector<sent_message_ptr> kept;
  };

  static std::size_t cost(const sent_message& m) { return message_cost + m.bytes.size(); }

  CAUSEWAY_DECL static bool matches(const net::message_id& a, const net::message_id& b);

  CAUSEWAY_DECL [[nodiscard]] error called_off(net::peer_index link) const;

  CAUSEWAY_DECL slot_index start(bool is_send, net::peer_index link, const net::message_id& id, std::size_t length,
                                 time_point now);

  CAUSEWAY_DECL slot_index lose(slot_index slot);

  CAUSEWAY_DECL bool take_kept(slot_index slot);

  CAUSEWAY_DECL void deliver(const sent_message& message, slot_index slot);

  template <class F>
  void for_each_unfinished(F&& visit) {
    for (slot_index slot = 0; slot < operations_.size(); ++slot) {
      if (operations_[slot].used && !operations_[slot].done) visit(slot);
    }
  }

  traffic& counters_;
  net::detail::operation_table operations_;
  std::deque<box> links_;
  net::past_epochs past_;
  std::size_t kept_bytes_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_MAILBOX_HPP

// ---- causeway/sim/impl/mailbox.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_MAILBOX_IPP
#define CAUSEWAY_SIM_IMPL_MAILBOX_IPP

#include <algorithm>
#include <cstdio>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL mailbox::mailbox(traffic& counters) : counters_{counters} {}

CAUSEWAY_DECL void mailbox::add_link(std::string name) { links_.emplace_back().name = std::move(name); }

CAUSEWAY_DECL void mailbox::rename(net::peer_index link, std::string name) { links_[link].name = std::move(name); }

CAUSEWAY_DECL slot_index mailbox::start_send(net::peer_index link, const net::message_id& id, std::size_t bytes,
                                             time_point now, bool up) {
  const slot_index slot = start(true, link, id, bytes, now);
  if (!operations_[slot].done && !up) lose(slot);
  return slot;
}

CAUSEWAY_DECL slot_index mailbox::start_receive(net::peer_index link, const net::message_id& id,
                                                std::span<std::byte> buffer, time_point now, bool up) {
  const slot_index slot = start(false, link, id, buffer.size(), now);
  operations_[slot].target = buffer.data();
  if (operations_[slot].done || take_kept(slot)) return slot;
  if (!up) return lose(slot);
  box& b = links_[link];
  std::erase_if(b.given_up, [&](const net::message_id& old) { return matches(old, id); });
  b.open.push_back(slot);
  return slot;
}

CAUSEWAY_DECL bool mailbox::sent(slot_index slot, std::size_t header_bytes) {
  net::detail::pending_operation& op = operations_[slot];
  if (!op.used || op.done) return false;
  op.moved = op.length;
  counters_.bytes_sent += op.length + header_bytes;
  ++counters_.frames_sent;
  operations_.finish(slot);
  return true;
}

CAUSEWAY_DECL result<std::size_t> mailbox::give_up(slot_index slot, errc code, const char* why) {
  const net::detail::pending_operation& op = operations_[slot];
  box& b = links_[op.peer];
  if (!op.is_send && std::erase(b.open, slot) != 0) {
    b.given_up.push_back(op.id);
    if (b.given_up.size() > remembered_cancels) b.given_up.erase(b.given_up.begin());
  }
  operations_.finish(slot, fail(code, b.name, why));
  return operations_.release(slot);
}

CAUSEWAY_DECL void mailbox::arrived(net::peer_index link, sent_message_ptr message) {
  box& b = links_[link];
  counters_.bytes_received += message->wire_bytes;
  ++counters_.frames_received;
  if (past_.contains(message->id.epoch)) {
    ++counters_.frames_rejected;
    return;
  }
  const auto open = std::find_if(b.open.begin(), b.open.end(),
                                 [&](slot_index slot) { return matches(operations_[slot].id, message->id); });
  if (open != b.open.end()) {
    const slot_index slot = *open;
    b.open.erase(open);
    return deliver(*message, slot);
  }
  const auto late = std::find_if(b.given_up.begin(), b.given_up.end(),
                                 [&](const net::message_id& id) { return matches(id, message->id); });
  if (late != b.given_up.end()) {
    b.given_up.erase(late);
  } else if (!message->aborted) {
    kept_bytes_ += cost(*message);
    b.kept.push_back(std::move(message));
  }
}

CAUSEWAY_DECL void mailbox::fail_link(net::peer_index link, const error& why) {
  links_[link].open.clear();
  links_[link].given_up.clear();
  for_each_unfinished([&](slot_index slot) {
    if (operations_[slot].peer == link) operations_.finish(slot, why);
  });
}

CAUSEWAY_DECL void mailbox::fail_everything(const error& why) {
  for (box& b : links_) {
    b.open.clear();
    b.kept.clear();
  }
  kept_bytes_ = 0;
  for_each_unfinished([&](slot_index slot) { operations_.finish(slot, why); });
}

CAUSEWAY_DECL std::string mailbox::describe(time_point now) const {
  std::string text;
  operations_.for_each_unfinished([&](const net::detail::pending_operation& op) {
    char since[32];
    std::snprintf(since, sizeof since, "%.3f", seconds(now - op.since));
    text += (op.is_send ? "send to " : "receive from ") + name(op.peer) + " (" + net::detail::to_text(op.id) + ", " +
            std::to_string(op.length) + " bytes) since " + since + " s\n";
  });
  return text;
}

CAUSEWAY_DECL bool mailbox::matches(const net::message_id& a, const net::message_id& b) {
  return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
}

CAUSEWAY_DECL error mailbox::called_off(net::peer_index link) const {
  return fail(errc::cancelled, links_[link].name, "this exchange was called off");
}

CAUSEWAY_DECL slot_index mailbox::start(bool is_send, net::peer_index link, const net::message_id& id, std::size_t length,
                                        time_point now) {
  const bool known = link < links_.size();
  net::detail::pending_operation what;
  what.is_send = is_send;
  what.peer = known ? link : 0;
  what.id = id;
  what.length = length;
  what.since = now;
  const slot_index slot = operations_.start(what);
  if (!known) {
    operations_.finish(slot,
                       fail(errc::invalid_argument, net::detail::peer_name(link), "no such peer, or the peer itself"));
  } else if (past_.contains(id.epoch)) {
    operations_.finish(slot, called_off(link));
  }
  return slot;
}

CAUSEWAY_DECL slot_index mailbox::lose(slot_index slot) {
  operations_.finish(slot, fail(errc::peer_lost, links_[operations_[slot].peer].name, "the connection to it has ended"));
  return slot;
}

CAUSEWAY_DECL bool mailbox::take_kept(slot_index slot) {
  const net::detail::pending_operation& op = operations_[slot];
  box& b = links_[op.peer];
  const auto kept =
      std::find_if(b.kept.begin(), b.kept.end(), [&](const sent_message_ptr& m) { return matches(m->id, op.id); });
  if (kept == b.kept.end()) return false;
  const sent_message_ptr message = std::move(*kept);
  b.kept.erase(kept);
  kept_bytes_ -= cost(*message);
  deliver(*message, slot);
  return true;
}

CAUSEWAY_DECL void mailbox::deliver(const sent_message& message, slot_index slot) {
  net::detail::pending_operation& op = operations_[slot];
  const std::string& from = links_[op.peer].name;
  if (message.aborted) return operations_.finish(slot, fail(errc::cancelled, from, "it gave up sending this message"));
  if (message.id.parent != op.id.parent) {
    ++counters_.frames_rejected;
    return operations_.finish(
        slot, fail(errc::wrong_parent, from,
                   "its message (" + net::detail::to_text(message.id) + ") is based on another committed state than ours"));
  }
  if (message.bytes.size() > op.length) {
    ++counters_.frames_rejected;
    return operations_.finish(slot, fail(errc::too_large, from,
                                         "it sent " + std::to_string(message.bytes.size()) + " bytes where at most " +
                                             std::to_string(op.length) + " are expected"));
  }
  if (!message.bytes.empty()) std::memcpy(op.target, message.bytes.data(), message.bytes.size());
  op.moved = message.bytes.size();
  operations_.finish(slot);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_MAILBOX_IPP
#endif

// ---- causeway/sim/fiber.hpp ----
#ifndef CAUSEWAY_SIM_FIBER_HPP
#define CAUSEWAY_SIM_FIBER_HPP

// Functions that can be left in the middle and gone on with later, all on one thread: what lets ordinary blocking code of
// many peers run in one simulated cluster. Each has a stack of its own with a guard page below it; stacks are reused. A
// switch takes some nanoseconds: what a function call keeps, and nothing of the signal mask, for which swapcontext calls
// the system each time.
//
// A fiber keeps its own record of exceptions in flight, so that it may be left inside a catch block. Address and thread
// sanitizers are told of every switch.

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>
#include <exception>

#if defined(__SANITIZE_ADDRESS__)
#define CAUSEWAY_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAUSEWAY_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CAUSEWAY_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAUSEWAY_FIBER_TSAN 1
#endif
#endif

#if defined(CAUSEWAY_FIBER_ASAN)
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
#endif
#if defined(CAUSEWAY_FIBER_TSAN)
extern "C" void* __tsan_get_current_fiber();
extern "C" void* __tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void* fiber);
extern "C" void __tsan_switch_to_fiber(void* fiber, unsigned flags);
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// Stacks of one size, kept for reuse. Not thread-safe. Must outlive the fibers on its stacks.
class stack_pool {
 public:
  CAUSEWAY_DECL explicit stack_pool(std::size_t bytes = std::size_t{256} << 10U);
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  ~stack_pool();

  /// The lowest address of `bytes()` usable bytes. Throws std::bad_alloc.
  CAUSEWAY_DECL [[nodiscard]] std::byte* take();

  CAUSEWAY_DECL void give_back(std::byte* stack);

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Stacks taken from the operating system, in use or free.
  [[nodiscard]] std::size_t mapped() const noexcept { return mapped_; }
  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }

 private:
  std::size_t page_;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;
  std::vector<std::byte*> free_;
};

namespace detail {

/// Goes on where `enters` was left, and notes in `leaves` where this was: a place on a stack that has what a call preserves
/// (System V ABI, x86-64), and the address to go on from.
void switch_stack(void** leaves, void* enters) noexcept;

}  // namespace detail

/// One function on a stack of its own. Stays where it is: neither copied nor moved. It must have finished, or never been
/// resumed, when it is destroyed: its objects live on its stack.
class fiber {
 public:
  CAUSEWAY_DECL fiber(stack_pool& stacks, std::function<void()> body);
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  ~fiber();

  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  /// What the body threw, if it did.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// From outside: runs the body until it suspends or ends.
  CAUSEWAY_DECL void resume();

  /// From inside: back to whoever resumed it.
  CAUSEWAY_DECL void suspend();

 private:
  // What the C++ ABI keeps per thread: the exceptions that are being handled, and how many are on their way.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  // The one that is resumed for the first time: the first frame on its stack is given no argument.
  static inline thread_local fiber* beginning_ = nullptr;
  static void enter();

  CAUSEWAY_DECL void run();

  CAUSEWAY_DECL void leave();

  CAUSEWAY_DECL void swap_exceptions() noexcept;

  stack_pool& stacks_;
  std::byte* stack_;
  std::function<void()> body_;
  void* inside_ = nullptr;  // where it was left
  void* outside_ = nullptr;
  exceptions exceptions_{};
  std::exception_ptr failure_;
  bool started_ = false;
  bool finished_ = false;
#if defined(CAUSEWAY_FIBER_ASAN)
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
#endif
#if defined(CAUSEWAY_FIBER_TSAN)
  void* tsan_inside_ = nullptr;
  void* tsan_outside_ = nullptr;
#endif
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FIBER_HPP

// ---- causeway/sim/impl/fiber.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_FIBER_IPP
#define CAUSEWAY_SIM_IMPL_FIBER_IPP

#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL stack_pool::stack_pool(std::size_t bytes) : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))} {
#if defined(CAUSEWAY_FIBER_ASAN) || defined(CAUSEWAY_FIBER_TSAN)
  bytes *= 4;  // sanitizers make every frame bigger
#endif
  bytes_ = (bytes + page_ - 1) / page_ * page_;
}

CAUSEWAY_INLINE stack_pool::~stack_pool() {
  for (std::byte* const stack : free_) munmap(stack - page_, bytes_ + page_);
}

CAUSEWAY_DECL std::byte* stack_pool::take() {
  if (!free_.empty()) {
    std::byte* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void* const base = mmap(nullptr, bytes_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc{};
  mprotect(base, page_, PROT_NONE);  // an overflow ends the program here rather than in somebody's data
  ++mapped_;
  return static_cast<std::byte*>(base) + page_;
}

CAUSEWAY_DECL void stack_pool::give_back(std::byte* stack) {
#if defined(CAUSEWAY_FIBER_ASAN)
  __asan_unpoison_memory_region(stack, bytes_);
#endif
  free_.push_back(stack);
}

namespace detail {

#if defined(__clang__)
__attribute__((naked, noinline))
#else
__attribute__((naked, noipa))  // callers must not conclude from its body which registers it leaves alone
#endif
CAUSEWAY_INLINE void
switch_stack(void**, void*) noexcept {
  asm(R"(
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
  )");
}

}  // namespace detail

CAUSEWAY_DECL fiber::fiber(stack_pool& stacks, std::function<void()> body)
    : stacks_{stacks}, stack_{stacks.take()}, body_{std::move(body)} {
  // As switch_stack leaves a stack, and for `enter` no caller.
  struct {
    std::uint32_t sse_control = __builtin_ia32_stmxcsr();
    std::uint32_t x87_control = 0;
    std::uintptr_t registers[6] = {};
    void (*next)() = &fiber::enter;
    std::uintptr_t caller = 0;
  } begin;
  asm("fnstcw %0" : "=m"(begin.x87_control));
  static_assert(sizeof begin == 72);
  inside_ = std::memcpy(stack_ + stacks_.bytes() - sizeof begin, &begin, sizeof begin);
#if defined(CAUSEWAY_FIBER_TSAN)
  tsan_inside_ = __tsan_create_fiber(0);
#endif
}

CAUSEWAY_INLINE fiber::~fiber() {
  CAUSEWAY_EXPECT(finished_ || !started_);
#if defined(CAUSEWAY_FIBER_TSAN)
  __tsan_destroy_fiber(tsan_inside_);
#endif
  stacks_.give_back(stack_);
}

CAUSEWAY_DECL void fiber::resume() {
  CAUSEWAY_EXPECT(!finished_);
  started_ = true;
  swap_exceptions();
#if defined(CAUSEWAY_FIBER_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_, stacks_.bytes());
#endif
#if defined(CAUSEWAY_FIBER_TSAN)
  tsan_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
  beginning_ = this;
  detail::switch_stack(&outside_, inside_);
#if defined(CAUSEWAY_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  swap_exceptions();
}

CAUSEWAY_DECL void fiber::suspend() {
#if defined(CAUSEWAY_FIBER_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_size_);
#endif
  leave();
#if defined(CAUSEWAY_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_size_);
#endif
}

CAUSEWAY_INLINE void fiber::enter() { beginning_->run(); }

CAUSEWAY_DECL void fiber::run() {
#if defined(CAUSEWAY_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &outside_bottom_, &outside_size_);
#endif
  try {
    body_();
  } catch (...) {
    failure_ = std::current_exception();
  }
  body_ = nullptr;  // what it captured goes here, on its own stack
  finished_ = true;
#if defined(CAUSEWAY_FIBER_ASAN)
  __sanitizer_start_switch_fiber(nullptr, outside_bottom_, outside_size_);
#endif
  leave();
}

CAUSEWAY_DECL void fiber::leave() {
#if defined(CAUSEWAY_FIBER_TSAN)
  __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
  detail::switch_stack(&inside_, outside_);
}

CAUSEWAY_DECL void fiber::swap_exceptions() noexcept {
  exceptions current;
  void* const place = abi::__cxa_get_globals();
  std::memcpy(&current, place, sizeof current);
  std::memcpy(place, &exceptions_, sizeof exceptions_);
  exceptions_ = current;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FIBER_IPP
#endif

// ---- causeway/sim/process.hpp ----
#ifndef CAUSEWAY_SIM_PROCESS_HPP
#define CAUSEWAY_SIM_PROCESS_HPP

// One run of a program on a simulated host: ordinary blocking code on a fiber. While it blocks, virtual time passes and
// other things happen; while it runs, no time passes. Killing it throws a type of its own out of the call it blocks in, so
// that every object on its stack is destroyed; calls that would block meanwhile (from destructors) return at once.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

class process;
class transport;

/// Takes the lines that processes log, with virtual time and host.
using world_log = std::function<void(time_point, host_index, severity, std::string_view)>;

namespace detail {

/// Unwinds a killed process. Not a std::exception: nobody should take it for an error that can be handled.
struct process_killed {};

/// Something of a process that the network knows, and that must let go of it when the process ends.
class endpoint {
 public:
  virtual ~endpoint() = default;
  /// The process is over. From now on calls give errors and reach nothing of the world.
  virtual void process_ended(bool killed) = 0;
  /// The host's clock has jumped, or runs at another rate.
  virtual void clock_changed() {}
};

/// What all parts of a world share.
struct core {
  CAUSEWAY_DECL explicit core(const world_options& o);

  world_options options;
  scheduler events;
  network net;
  stack_pool stacks;
  std::vector<process*> ready;  ///< in the order in which they became so
  process* running = nullptr;
  world_log log;
};

}  // namespace detail

/// Why a process that waited goes on.
enum class wake_reason : std::uint8_t {
  woken,     ///< somebody called wake
  deadline,  ///< the time has come
  dying,     ///< the process is being unwound: do not wait
};

class process {
 public:
  CAUSEWAY_DECL process(detail::core& shared, host_index host, std::uint32_t incarnation, io::any_storage storage,
                        std::function<void(process&)> program);
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  ~process();

  // ---- for the program -------------------------------------------------------------------------------------------------

  [[nodiscard]] host_index host() const noexcept { return host_; }
  /// 1 for the host's first process, one more for each later.
  [[nodiscard]] std::uint32_t incarnation() const noexcept { return incarnation_; }
  /// The host's, which may go wrong: see world::set_clock_rate. Deadlines are times of this clock.
  [[nodiscard]] any_clock clock() const { return any_clock{core_.net.at(host_).clock}; }
  [[nodiscard]] time_point now() const noexcept { return core_.net.at(host_).clock.now(); }
  /// Its own draws: the same for equal (seed of the world, host, incarnation).
  [[nodiscard]] rng& random() noexcept { return random_; }

  void sleep(duration d) { sleep_till(now() + d); }

  /// The same for what takes its time whatever the host's clock says.
  CAUSEWAY_DECL void sleep_world(duration d);

  CAUSEWAY_DECL void sleep_till(time_point when);

  /// Takes `nominal` divided by the host's speed; while the process is stopped, nothing gets done.
  CAUSEWAY_DECL void compute(duration nominal);

  /// A fabric for the peer `id`, at the next free port of this host: "<name>:1", "<name>:2", ... Everything that it starts
  /// ends with this process.
  [[nodiscard]] std::shared_ptr<net::fabric> make_fabric(net::peer_id id);

  /// A network of fixed membership: this host must be one of `peers`, and its place among them is its index. Blocks until
  /// all connections stand; errc::timeout names who did not come within `patience`.
  CAUSEWAY_DECL [[nodiscard]] result<transport> make_transport(std::vector<host_index> peers,
                                                               duration patience = std::chrono::minutes{10});

  /// The host's disk; what is on it stays when the process ends.
  [[nodiscard]] io::any_storage storage() const { return storage_; }

  /// Its lines go to the world's log.
  CAUSEWAY_DECL [[nodiscard]] log_sink log() const;

  /// The world asked it to end, as with SIGTERM; calls of fabric::block give errc::cancelled.
  [[nodiscard]] bool asked_to_stop() const noexcept { return asked_to_stop_; }

  // ---- for what blocks on its behalf -----------------------------------------------------------------------------------

  /// Blocks until wake() or `deadline`. Only from the process itself.
  wake_reason park(time_point deadline) { return park_until(core_.net.at(host_).clock.world(deadline)); }

  /// The same with a time of the world.
  CAUSEWAY_DECL wake_reason park_until(time_point deadline);

  /// The process goes on, as soon as what happens now is over.
  CAUSEWAY_DECL void wake();

  [[nodiscard]] detail::core& shared() noexcept { return core_; }
  CAUSEWAY_DECL void add(detail::endpoint* e);
  CAUSEWAY_DECL void remove(const detail::endpoint* e);

  // ---- for the world ---------------------------------------------------------------------------------------------------

  /// Lets it run until it blocks or ends.
  CAUSEWAY_DECL void run();

  /// Unwinds it. Only from outside of it.
  CAUSEWAY_DECL void kill();

  /// Its fabrics and transports let go of the world.
  CAUSEWAY_DECL void let_go(bool killed);

  CAUSEWAY_DECL void ask_to_stop();

  /// Whoever waits looks at the clock again.
  CAUSEWAY_DECL void clock_changed();

  CAUSEWAY_DECL void make_ready();

  void not_ready() noexcept { ready_ = false; }

  [[nodiscard]] bool finished() const noexcept { return fiber_.finished(); }
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return fiber_.failure(); }

 private:
  detail::core& core_;
  host_index host_;
  std::uint32_t incarnation_;
  io::any_storage storage_;
  rng random_;
  std::vector<detail::endpoint*> endpoints_;
  scheduler::ticket timer_ = 0;
  bool ready_ = false;
  bool woken_ = false;
  bool killed_ = false;
  bool asked_to_stop_ = false;
  fiber fiber_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_PROCESS_HPP

// ---- causeway/sim/impl/process.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_PROCESS_IPP
#define CAUSEWAY_SIM_IMPL_PROCESS_IPP

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
#endif

// ---- causeway/sim/fabric.hpp ----
#ifndef CAUSEWAY_SIM_FABRIC_HPP
#define CAUSEWAY_SIM_FABRIC_HPP

// net::fabric on the simulated network. Events reach their owner between two blocking calls of the process, one at a time,
// and never while the process is stopped; so the "lock" of the contract is that nothing else runs. When the process ends,
// its fabrics let go of the world, and what is called afterwards gives errors.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

template <class Whole>
class basic_fabric;
using fabric = basic_fabric<void>;

template <class Whole>
class basic_fabric final : public net::fabric,
                           public detail::endpoint,
                           private detail::socket_owner,
                           private detail::acquaintance {
 public:
  /// At the first free port of the host from `first_port` on.
  basic_fabric(process& owner, net::peer_id id, std::uint32_t first_port = 1);
  basic_fabric(const basic_fabric&) = delete;
  basic_fabric& operator=(const basic_fabric&) = delete;

  /// Says goodbye: what was sent before still arrives.
  ~basic_fabric() override;

  [[nodiscard]] net::peer_id id() const override { return id_; }
  [[nodiscard]] std::string address() const override;
  [[nodiscard]] time_point now() const override { return clock_.now(); }

  void attach(net::fabric_events* events) override;

  void dial(const std::string& address) override;

  void close(net::peer_index link, const std::string& why) override;

  [[nodiscard]] bool is_up(net::peer_index link) const override;

  void post(net::peer_index link, std::vector<std::byte> message, bool bulk = false) override;

  void wake_at(time_point when) override;

  void cancel_before(std::uint32_t epoch) override;

  /// All of it happens now; what the disk takes passes before `then`.
  void aside(std::function<void()> work, std::function<void()> then) override;

  net::operation send(net::peer_index link, const net::message_id& id, std::span<const std::byte> bytes) override;

  net::operation receive(net::peer_index link, const net::message_id& id, std::span<std::byte> buffer) override;

  result<std::size_t> wait(net::operation op, time_point deadline) override;

  /// Depends on virtual time alone: messages arrive while the process waits or computes, never between two looks.
  [[nodiscard]] bool done(net::operation op) const override { return mailbox_.ended(op); }

  void locked(const std::function<void()>& what) override;

  result<bool> block(const std::function<bool()>& done, time_point deadline) override;

  [[nodiscard]] traffic stats() const override { return counters_; }
  [[nodiscard]] std::string describe_waits() const override { return mailbox_.describe(now()); }

  // ---- beyond the contract ---------------------------------------------------------------------------------------------

  /// What errors call the peer of a link; "peer <link>" otherwise.
  void rename(net::peer_index link, std::string name);
  /// Bytes of messages that came before anybody asked for them.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return mailbox_.kept_bytes(); }

  void clock_changed() override;

  void process_ended(bool killed) override;

 private:
  /// While the process holds the lock. Also undone where it is killed meanwhile.
  struct lock_count {
    explicit lock_count(std::uint32_t& of) : count{of} { ++count; }
    ~lock_count() { --count; }
    lock_count(const lock_count&) = delete;
    lock_count& operator=(const lock_count&) = delete;
    std::uint32_t& count;
  };

  struct peer {
    net::peer_id id = 0;
    std::string address;
    detail::end_ref end;
    bool up = false;
    bool closing = false;
    bool paused = false;
    std::vector<std::pair<time_point, std::vector<std::byte>>> recent;  ///< see world_options::repeat_after_reconnect
  };

  std::string take_port(std::uint32_t port);

  // ---- what the network says -------------------------------------------------------------------------------------------

  void on_connected(detail::end_ref end, std::uint64_t tag) override { dialer_.connected(end, tag); }

  void on_refused(std::uint64_t tag, const error& why) override { dialer_.failed(tag, why); }

  void on_message(detail::end_ref end, detail::sent_message_ptr message) override;

  void on_closed(detail::end_ref end, const error& why) override;

  void on_sent(detail::end_ref, std::uint32_t operation) override;

  // ---- links -----------------------------------------------------------------------------------------------------------

  bool connected_to(net::peer_id id) override;

  void met(detail::end_ref end, net::peer_id id, const std::string& address) override;

  void not_met(const std::string& address, const error& why) override;

  /// As many as there are links: the peer has none yet.
  [[nodiscard]] net::peer_index find_link(net::peer_id id) const;

  void take_down(net::peer_index link, const std::string& reason);

  void cannot_dial(const std::string& address, const char* why);

  // ---- messages --------------------------------------------------------------------------------------------------------

  void hear(net::peer_index link, detail::end_ref end, std::vector<std::byte>& message);

  /// Up to `most` later, on whatever connection this link then has to the same process.
  void hear_later(net::peer_index link, detail::end_ref end, duration most, std::vector<std::byte> message);

  void post_now(const peer& to, std::vector<std::byte> message, bool bulk);

  void remember(peer& p, const std::vector<std::byte>& message);

  /// A sender that cannot know what arrived before the break says it again.
  void repeat(peer& p);

  /// Tells senders to hold data back while more is kept than may be, but not those of whom something is wanted: it may be
  /// behind what is kept.
  void look_at_room();

  void stop_send(detail::slot_index slot);

  result<std::size_t> give_up(detail::slot_index slot, errc code, const char* why);

  // ---- the process -----------------------------------------------------------------------------------------------------

  /// Happens as an event of its own at this very time, and not while the process is stopped.
  void later(std::function<void()> what);

  void look_at_waiting();

  void after_event();

  process* process_;  // nullptr once it has ended
  detail::core& core_;
  host_clock clock_;
  host_index host_;
  net::peer_id id_;
  std::string address_;
  net::fabric_events* events_ = nullptr;
  detail::dialer dialer_;
  std::deque<peer> links_;
  std::unordered_map<net::peer_id, net::peer_index> by_id_;
  std::unordered_map<std::string, net::peer_index> by_address_;  ///< who was met there last
  std::unordered_map<std::uint64_t, net::peer_index> by_end_;
  scheduler::ticket wake_ = 0;
  time_point wake_when_ = no_deadline;
  time_point aside_until_;
  std::shared_ptr<char> here_ = std::make_shared<char>();  ///< gone when this object or its process is
  traffic counters_;
  detail::mailbox mailbox_{counters_};
  bool any_paused_ = false;
  detail::slot_index waiting_ = net::detail::no_slot;
  const std::function<bool()>* done_ = nullptr;
  bool satisfied_ = false;
};

inline std::shared_ptr<net::fabric> process::make_fabric(net::peer_id id) { return std::make_shared<fabric>(*this, id); }

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FABRIC_HPP

// ---- causeway/sim/impl/fabric.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_FABRIC_IPP
#define CAUSEWAY_SIM_IMPL_FABRIC_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_LAZY basic_fabric<Whole>::basic_fabric(process& owner, net::peer_id id, std::uint32_t first_port)
    : process_{&owner},
      core_{owner.shared()},
      clock_{core_.net.at(owner.host()).clock},
      host_{owner.host()},
      id_{id},
      address_{take_port(first_port)},
      dialer_{core_.net, host_, id_, address_, *this, *this} {
  owner.add(this);
}

CAUSEWAY_LAZY std::string basic_fabric<Whole>::address() const { return address_; }

CAUSEWAY_LAZY void basic_fabric<Whole>::rename(net::peer_index link, std::string name) {
  mailbox_.rename(link, std::move(name));
}

CAUSEWAY_LAZY basic_fabric<Whole>::~basic_fabric() {
  if (process_ == nullptr) return;
  process_->remove(this);
  process_ended(false);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::attach(net::fabric_events* events) {
  if (process_ == nullptr) return;
  events_ = events;
  if (events_ == nullptr) return dialer_.close_doors();
  later([this] {
    if (events_ != nullptr) dialer_.open_doors();
  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::dial(const std::string& address) {
  if (process_ == nullptr) return;
  if (address == address_) return cannot_dial(address, "this is our own address");
  const detail::network_address to = detail::parse_address(core_.net, address);
  if (to.host == no_host) return cannot_dial(address, "no such host; an address is <host>:<number>");
  const auto known = by_address_.find(address);
  const bool stands = known != by_address_.end() && links_[known->second].up && links_[known->second].address == address;
  if (!stands) dialer_.dial(address, to);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::close(net::peer_index link, const std::string& why) {
  if (!is_up(link)) return;
  links_[link].closing = true;
  later([this, link, end = links_[link].end, why] {
    if (links_[link].up && links_[link].end == end) take_down(link, why);
  });
}

CAUSEWAY_LAZY bool basic_fabric<Whole>::is_up(net::peer_index link) const {
  return link < links_.size() && links_[link].up && !links_[link].closing;
}

CAUSEWAY_LAZY void basic_fabric<Whole>::post(net::peer_index link, std::vector<std::byte> message, bool bulk) {
  CAUSEWAY_EXPECT(message.size() <= net::max_post_bytes);
  if (!is_up(link)) return;
  if (core_.options.repeat_after_reconnect > 0) remember(links_[link], message);
  const time_point held = core_.net.at(host_).disk_until;
  if (held <= core_.events.now()) return post_now(links_[link], std::move(message), bulk);
  // A handler that waits for the disk: what it says next is said when the disk is done.
  core_.events.at(held, {event_kind::notify, host_, message.size()},
                  [this, here = std::weak_ptr<char>{here_}, link, bulk, m = std::move(message)] {
                    if (!here.expired() && links_[link].up) post_now(links_[link], m, bulk);
                  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::wake_at(time_point when) {
  if (process_ == nullptr) return;
  core_.events.cancel(std::exchange(wake_, 0));
  if (when == no_deadline) return;
  wake_when_ = when;
  wake_ = core_.events.at(clock_.world(when), {event_kind::timer, host_, 0}, [this] {
    wake_ = 0;
    core_.net.wires().dispatch(host_, [this] {
      if (events_ != nullptr) events_->on_wake();
      after_event();
    });
  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::cancel_before(std::uint32_t epoch) {
  mailbox_.cancel_before(epoch, [this](detail::slot_index slot) { stop_send(slot); });
  look_at_room();
  look_at_waiting();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::aside(std::function<void()> work, std::function<void()> then) {
  if (process_ == nullptr) return;
  detail::machine& m = core_.net.at(host_);
  duration took{0};
  duration* const outer = std::exchange(m.aside, &took);
  work();
  m.aside = outer;
  aside_until_ = std::max(aside_until_, core_.events.now()) + took;
  core_.events.at(aside_until_, {event_kind::notify, host_, id_},
                  [this, here = std::weak_ptr<char>{here_}, f = std::move(then)] {
                    if (here.expired()) return;
                    core_.net.wires().dispatch(host_, [this, f] {
                      if (events_ != nullptr) f();
                      after_event();
                    });
                  });
}

CAUSEWAY_LAZY net::operation basic_fabric<Whole>::send(net::peer_index link, const net::message_id& id,
                                                       std::span<const std::byte> bytes) {
  const detail::slot_index slot = mailbox_.start_send(link, id, bytes.size(), now(), is_up(link));
  if (!mailbox_.done(slot)) {
    detail::sent_message_ptr message = core_.net.wires().pool().make(detail::content::data, detail::lane::data);
    message->id = id;
    message->operation = slot;
    message->bytes.assign(bytes.begin(), bytes.end());
    core_.net.send(links_[link].end, std::move(message));
  }
  return mailbox_.handle(slot);
}

CAUSEWAY_LAZY net::operation basic_fabric<Whole>::receive(net::peer_index link, const net::message_id& id,
                                                          std::span<std::byte> buffer) {
  const detail::slot_index slot = mailbox_.start_receive(link, id, buffer, now(), is_up(link));
  look_at_room();
  return mailbox_.handle(slot);
}

CAUSEWAY_LAZY result<std::size_t> basic_fabric<Whole>::wait(net::operation op, time_point deadline) {
  const detail::slot_index slot = mailbox_.find(op);
  if (slot == net::detail::no_slot) {
    return fail(errc::invalid_argument, "fabric", "waited for an operation that is not under way");
  }
  while (!mailbox_.done(slot)) {
    if (now() >= deadline)
      return give_up(slot, errc::timeout, "no answer before the deadline; raise it or look at that peer");
    waiting_ = slot;
    const wake_reason why = process_->park(deadline);
    waiting_ = net::detail::no_slot;
    if (why == wake_reason::dying) return give_up(slot, errc::cancelled, "this process is being ended");
  }
  return mailbox_.release(slot);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::locked(const std::function<void()>& what) {
  detail::machine& m = core_.net.at(host_);
  {
    const lock_count held{m.locks};
    what();
  }
  if (process_ == nullptr || m.locks != 0 || (m.frozen & detail::standstill::disk_held) == 0) return;
  core_.events.after(duration{0}, {event_kind::notify, host_, id_},
                     [net = &core_.net, host = host_] { net->wires().thaw(host, detail::standstill::disk_held); });
}

CAUSEWAY_LAZY result<bool> basic_fabric<Whole>::block(const std::function<bool()>& done, time_point deadline) {
  for (;;) {
    if (process_ == nullptr || process_->asked_to_stop()) {
      return fail(errc::cancelled, "fabric", "this peer was asked to stop");
    }
    if (done()) return true;
    if (now() >= deadline) return false;
    done_ = &done;
    const wake_reason why = process_->park(deadline);
    done_ = nullptr;
    if (std::exchange(satisfied_, false)) return true;
    if (why == wake_reason::dying) return fail(errc::cancelled, "fabric", "this process is being ended");
  }
}

CAUSEWAY_LAZY void basic_fabric<Whole>::clock_changed() {
  if (wake_ != 0) wake_at(wake_when_);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::process_ended(bool killed) {
  core_.events.cancel(std::exchange(wake_, 0));
  here_.reset();
  dialer_.stop();
  core_.net.drop(this, host_, killed ? "its process was killed" : "its process has ended", !killed);
  for (peer& p : links_) p.up = false;
  events_ = nullptr;
  done_ = nullptr;
  waiting_ = net::detail::no_slot;
  mailbox_.fail_everything(fail(errc::peer_lost, "fabric", "this peer's process has ended"));
  process_ = nullptr;
}

CAUSEWAY_LAZY std::string basic_fabric<Whole>::take_port(std::uint32_t port) {
  while (core_.net.at(host_).listeners.contains(port)) ++port;
  core_.net.listen(host_, port, this);
  return detail::address_text(core_.net, host_, port);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::on_message(detail::end_ref end, detail::sent_message_ptr message) {
  if (dialer_.heard(end, *message)) return;
  const auto link = by_end_.find(end.value);
  if (link == by_end_.end() || links_[link->second].closing) return;
  if (message->what == detail::content::data) {
    mailbox_.arrived(link->second, std::move(message));
    look_at_room();
    look_at_waiting();
  } else {
    counters_.bytes_received += message->wire_bytes;
    ++counters_.frames_received;
    hear(link->second, end, message->bytes);
  }
  after_event();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::on_closed(detail::end_ref end, const error& why) {
  if (dialer_.closed(end, why)) return;
  if (const auto link = by_end_.find(end.value); link != by_end_.end()) take_down(link->second, why.message);
  after_event();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::on_sent(detail::end_ref, std::uint32_t operation) {
  if (mailbox_.sent(operation, core_.options.header_bytes)) look_at_waiting();
}

CAUSEWAY_LAZY bool basic_fabric<Whole>::connected_to(net::peer_id id) {
  const net::peer_index link = find_link(id);
  return link < links_.size() && links_[link].up && core_.net.far_end_open(links_[link].end);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::met(detail::end_ref end, net::peer_id id, const std::string& address) {
  const net::peer_index link = find_link(id);
  if (link == links_.size()) {
    links_.emplace_back().id = id;
    by_id_[id] = link;
    mailbox_.add_link(net::detail::peer_name(link));
  }
  if (links_[link].up) take_down(link, "it has connected anew");
  peer& p = links_[link];
  p.address = address;
  by_address_[address] = link;
  p.end = end;
  p.up = true;
  p.closing = p.paused = false;
  by_end_[end.value] = link;
  repeat(p);
  if (events_ != nullptr) events_->on_up(link, id, address);
  after_event();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::not_met(const std::string& address, const error& why) {
  if (events_ != nullptr) events_->on_unreachable(address, why);
  after_event();
}

CAUSEWAY_LAZY net::peer_index basic_fabric<Whole>::find_link(net::peer_id id) const {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? static_cast<net::peer_index>(links_.size()) : known->second;
}

CAUSEWAY_LAZY void basic_fabric<Whole>::take_down(net::peer_index link, const std::string& reason) {
  peer& p = links_[link];
  const error why = fail(errc::peer_lost, mailbox_.name(link), reason);
  by_end_.erase(p.end.value);
  p.up = false;
  core_.net.close(p.end, reason, false);
  mailbox_.fail_link(link, why);
  look_at_waiting();
  if (events_ != nullptr) events_->on_down(link, why);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::cannot_dial(const std::string& address, const char* why) {
  later([this, address, why] {
    if (events_ != nullptr) events_->on_unreachable(address, fail(errc::unreachable, address, why));
  });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::hear(net::peer_index link, detail::end_ref end, std::vector<std::byte>& message) {
  if (core_.net.befalls(mishap::repeat, end)) hear_later(link, end, std::chrono::seconds{5}, message);
  if (core_.net.befalls(mishap::reorder, end)) {
    return hear_later(link, end, std::chrono::milliseconds{200}, std::move(message));
  }
  if (events_ != nullptr) events_->on_control(link, message);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::hear_later(net::peer_index link, detail::end_ref end, duration most,
                                                   std::vector<std::byte> message) {
  const std::uint64_t sender = core_.net.far_process(end);
  core_.events.after(core_.net.wires().up_to(most), {event_kind::notify, host_, message.size()},
                     [this, here = std::weak_ptr<char>{here_}, link, sender, m = std::move(message)] {
                       if (here.expired()) return;
                       core_.net.wires().dispatch(host_, [this, link, sender, m] {
                         const bool same = is_up(link) && sender != 0 && core_.net.far_process(links_[link].end) == sender;
                         if (same && events_ != nullptr) events_->on_control(link, m);
                         after_event();
                       });
                     });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::post_now(const peer& to, std::vector<std::byte> message, bool bulk) {
  counters_.bytes_sent += message.size() + core_.options.header_bytes;
  ++counters_.frames_sent;
  const detail::lane way = bulk ? detail::lane::bulk : detail::lane::control;
  detail::sent_message_ptr p = core_.net.wires().pool().make(detail::content::control, way);
  if (message.size() <= p->bytes.capacity()) {
    p->bytes.assign(message.begin(), message.end());  // there is room already: better kept
  } else {
    p->bytes = std::move(message);
  }
  core_.net.send(to.end, std::move(p));
}

CAUSEWAY_LAZY void basic_fabric<Whole>::remember(peer& p, const std::vector<std::byte>& message) {
  if (p.recent.size() >= 4) p.recent.erase(p.recent.begin());
  std::erase_if(p.recent, [this](const auto& sent) { return now() - sent.first > std::chrono::seconds{1}; });
  p.recent.emplace_back(now(), message);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::repeat(peer& p) {
  const double chance = core_.options.repeat_after_reconnect;
  for (auto& [when, message] : std::exchange(p.recent, {})) {
    if (static_cast<double>(core_.net.wires().random().uniform()) < chance) post_now(p, std::move(message), false);
  }
}

CAUSEWAY_LAZY void basic_fabric<Whole>::look_at_room() {
  if (process_ == nullptr) return;
  const bool full = mailbox_.kept_bytes() >= core_.options.kept_bytes;
  if (!full && !any_paused_) return;
  any_paused_ = full;
  for (net::peer_index link = 0; link < links_.size(); ++link) {
    const bool pause = full && !mailbox_.wants_anything(link);
    if (links_[link].up && std::exchange(links_[link].paused, pause) != pause) {
      core_.net.wires().pause(links_[link].end, pause);
    }
  }
}

CAUSEWAY_LAZY void basic_fabric<Whole>::stop_send(detail::slot_index slot) {
  if (process_ != nullptr) core_.net.wires().abort(links_[mailbox_.at(slot).peer].end, slot);
}

CAUSEWAY_LAZY result<std::size_t> basic_fabric<Whole>::give_up(detail::slot_index slot, errc code, const char* why) {
  if (mailbox_.at(slot).is_send) stop_send(slot);
  return mailbox_.give_up(slot, code, why);
}

CAUSEWAY_LAZY void basic_fabric<Whole>::later(std::function<void()> what) {
  core_.events.after(duration{0}, {event_kind::notify, host_, id_},
                     [this, here = std::weak_ptr<char>{here_}, f = std::move(what)] {
                       if (here.expired()) return;
                       core_.net.wires().dispatch(host_, [this, f] {
                         f();
                         after_event();
                       });
                     });
}

CAUSEWAY_LAZY void basic_fabric<Whole>::look_at_waiting() {
  if (waiting_ != net::detail::no_slot && mailbox_.done(waiting_)) process_->wake();
}

CAUSEWAY_LAZY void basic_fabric<Whole>::after_event() {
  if (done_ == nullptr || satisfied_ || !(*done_)()) return;
  satisfied_ = true;
  process_->wake();
}

#ifdef CAUSEWAY_COMPILED
template class basic_fabric<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FABRIC_IPP
#endif

// ---- causeway/core/table_text.hpp ----
#ifndef CAUSEWAY_CORE_TABLE_TEXT_HPP
#define CAUSEWAY_CORE_TABLE_TEXT_HPP

// What tables have in common that people write as text: lines, comments from '#' on, fields, numbers, and errors that name
// the line. Nothing is trusted, and sizes are bounded.

#include <charconv>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace text {

inline constexpr std::size_t longest_table = std::size_t{16} << 20U;

CAUSEWAY_DECL std::string_view trimmed(std::string_view text);

/// The parts of `text` between `separator`, trimmed. At least one.
CAUSEWAY_DECL std::vector<std::string_view> split(std::string_view text, char separator);

/// One line of a file, for messages.
struct place {
  const std::string& name;
  std::size_t line;

  CAUSEWAY_DECL [[nodiscard]] error wrong(const std::string& what) const;
};

/// Calls `take(line, place)` for each line that holds more than blanks and comments. `name` is for messages.
template <class Take>
result<void> for_each_line(std::string_view text, const std::string& name, Take take) {
  if (text.size() > longest_table) return fail(errc::too_large, name, "longer than 16 MiB; leave out what is not needed");
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view line = trimmed(whole.substr(0, whole.find('#')));
    if (!line.empty()) CAUSEWAY_TRY(take(line, place{name, number}));
  }
  return {};
}

/// A number of type T that takes the whole field.
template <class T>
result<T> number_from(std::string_view field, const place& at, const char* what) {
  T value{};
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || code != std::errc{} || end != field.data() + field.size()) {
    return at.wrong(std::string{what} + " is not a number: \"" + std::string{field.substr(0, 40)} + '"');
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return at.wrong(std::string{what} + " must be finite");
  }
  return value;
}

/// `value` in [least, most].
CAUSEWAY_DECL result<double> number_between(std::string_view field, double least, double most, const place& at,
                                            const char* what);

}}}  // namespace causeway::CAUSEWAY_ABI::text

#endif  // CAUSEWAY_CORE_TABLE_TEXT_HPP

// ---- causeway/core/impl/table_text.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP
#define CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace text {

CAUSEWAY_DECL std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

CAUSEWAY_DECL std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

CAUSEWAY_DECL error place::wrong(const std::string& what) const {
  return fail(errc::bad_text, name + ", line " + std::to_string(line), what);
}

CAUSEWAY_DECL result<double> number_between(std::string_view field, double least, double most, const place& at,
                                            const char* what) {
  CAUSEWAY_ASSIGN(const double value, number_from<double>(field, at, what));
  if (value >= least && value <= most) return value;
  return at.wrong(std::string{what} + " is out of range: " + std::string{field.substr(0, 40)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::text

#endif  // CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP
#endif

// ---- causeway/sim/fault_plan.hpp ----
#ifndef CAUSEWAY_SIM_FAULT_PLAN_HPP
#define CAUSEWAY_SIM_FAULT_PLAN_HPP

// What goes wrong in a simulated cluster, and when, as data: made from a seed (sim/fault_profile.hpp) or read from text,
// printed, replayed, and made smaller until only what matters is left. Formats: docs/reference/simulation_files.md.

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

enum class fault_kind : std::uint8_t {
  kill,       ///< the process dies, the machine lives
  power_off,  ///< the machine dies: others hear nothing, the disk loses what was not synced
  restart,    ///< after a kill or power_off; a process that runs is killed first
  stop,       ///< the process stands still
  resume,
  partition,    ///< `hosts` and `others` do not reach each other
  heal,         ///< undoes partition
  block,        ///< nothing gets from `hosts` to `others`
  unblock,      ///< undoes block
  lose_stream,  ///< one TCP stream between `hosts` and `others` dies: data on its way is lost, then the link ends
  slow_link,    ///< between `hosts` and `others` a connection carries `amount` bytes/s; 0: as much as ever
  damage,       ///< part `amount` of the messages from `hosts` to `others` is damaged: the digest ends the link; 0: none
  alter,        ///< part `amount` of the data messages arrives whole and with another value; 0: none
  repeat,       ///< part `amount` of the control messages comes again later, on a later connection too; 0: none
  reorder,      ///< part `amount` of the control messages is overtaken by later ones; 0: none
  speed,        ///< `amount` times the usual speed; 1: the usual
  clock_rate,   ///< the clock runs at `amount` times the usual rate; 1: the usual
  clock_jump,   ///< the clock goes forward by `amount` seconds at once
  descriptors,  ///< the host can have `amount` connections, no dial or accept beyond them; 0: no limit
  no_memory,    ///< part `amount` of the messages that arrive finds no memory and ends its link; 0: none
  fail_write,   ///< the `amount`-th write to the disk from now on fails
  fail_sync,    ///< the same for fsync
  disk_full,    ///< the disk holds `amount` bytes; 0: no limit
  slow_disk,    ///< the disk writes `amount` bytes/s; 0: at once
  slow_sync,    ///< each fsync takes `amount` seconds; 0: no time
  flip,         ///< a bit of some file on the disk
};

inline constexpr std::array<std::string_view, 26> fault_names{
    "kill",      "power_off", "restart",     "stop",       "resume",      "partition", "heal",
    "block",     "unblock",   "lose_stream", "slow_link",  "damage",      "alter",     "repeat",
    "reorder",   "speed",     "clock_rate",  "clock_jump", "descriptors", "no_memory", "fail_write",
    "fail_sync", "disk_full", "slow_disk",   "slow_sync",  "flip"};

constexpr std::string_view to_string(fault_kind kind) noexcept { return fault_names[static_cast<std::size_t>(kind)]; }

/// One thing that happens to `hosts`, and for faults of the network to the lines between them and `others`.
struct fault {
  time_point at{};
  fault_kind kind = fault_kind::kill;
  std::vector<std::uint32_t> hosts{};
  std::vector<std::uint32_t> others{};
  double amount = 0;

  friend bool operator==(const fault&, const fault&) = default;
};

/// What undoes a fault, if something does.
CAUSEWAY_DECL [[nodiscard]] bool undoes(const fault& later, const fault& earlier);

struct fault_plan {
  std::vector<fault> faults;

  /// Orders the faults by time; those of one moment keep their order.
  CAUSEWAY_DECL void sort();

  /// When the last one happens.
  CAUSEWAY_DECL [[nodiscard]] time_point end() const;

  /// One more than the highest host that is named.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t hosts() const;

  /// Whether fault `i` undoes an earlier one.
  CAUSEWAY_DECL [[nodiscard]] bool is_undo(std::size_t i) const;

  /// Without fault `i` and without what undoes it, so that what is left is again something that may happen.
  CAUSEWAY_DECL [[nodiscard]] fault_plan without(std::size_t i) const;

  /// One line per fault; `parse` gives the same plan back, to the bit.
  CAUSEWAY_DECL [[nodiscard]] std::string text() const;

  /// errc::bad_text names the line; errc::too_large beyond 16 MiB.
  CAUSEWAY_DECL static result<fault_plan> parse(std::string_view text, const std::string& name = "fault plan");

  friend bool operator==(const fault_plan&, const fault_plan&) = default;
};

/// Takes faults away, each with what undoes it, as long as `fails(plan)` stays true: halves first, then single ones. Calls
/// `fails` some n · log n times.
template <class Fails>
[[nodiscard]] fault_plan shrink(fault_plan plan, Fails fails);

namespace detail {

constexpr bool between_hosts(fault_kind kind) noexcept {
  return kind >= fault_kind::partition && kind <= fault_kind::reorder;
}
/// Faults of messages on their way; in the order of sim::mishap.
constexpr bool of_messages(fault_kind kind) noexcept { return kind >= fault_kind::damage && kind <= fault_kind::reorder; }
constexpr bool of_the_disk(fault_kind kind) noexcept { return kind >= fault_kind::fail_write; }
constexpr bool has_amount(fault_kind kind) noexcept { return kind >= fault_kind::slow_link && kind != fault_kind::flip; }

/// What a kind is undone by; itself where a second fault of the kind with `normal` as its amount does it.
constexpr std::optional<fault_kind> opposite(fault_kind kind) noexcept {
  switch (kind) {
    case fault_kind::kill:
    case fault_kind::power_off: return fault_kind::restart;
    case fault_kind::stop: return fault_kind::resume;
    case fault_kind::partition: return fault_kind::heal;
    case fault_kind::block: return fault_kind::unblock;
    case fault_kind::lose_stream:
    case fault_kind::clock_jump:
    case fault_kind::fail_write:
    case fault_kind::fail_sync: return std::nullopt;
    default: return has_amount(kind) ? std::optional{kind} : std::nullopt;
  }
}

constexpr double normal_amount(fault_kind kind) noexcept {
  return kind == fault_kind::speed || kind == fault_kind::clock_rate ? 1 : 0;
}

}  // namespace detail

template <class Fails>
fault_plan shrink(fault_plan plan, Fails fails) {
  for (std::size_t chunk = std::max<std::size_t>(plan.faults.size() / 2, 1);; chunk = chunk / 2) {
    for (std::size_t begin = 0; begin < plan.faults.size();) {
      fault_plan smaller = plan;
      std::size_t taken = 0;
      for (std::size_t i = begin; taken < chunk && i < smaller.faults.size();) {
        if (smaller.is_undo(i)) {
          ++i;
        } else {
          smaller = smaller.without(i);
          ++taken;
        }
      }
      if (taken > 0 && fails(smaller)) {
        plan = std::move(smaller);
      } else {
        begin += chunk;
      }
    }
    if (chunk == 1) return plan;
  }
}

namespace detail {

CAUSEWAY_DECL std::string host_list(const std::vector<std::uint32_t>& hosts);

CAUSEWAY_DECL std::string exact(double value);

/// Seconds with as many decimals as needed, from whole nanoseconds.
CAUSEWAY_DECL std::string exact(time_point at);

CAUSEWAY_DECL result<time_point> moment_from(std::string_view field, const text::place& place);

CAUSEWAY_DECL result<std::vector<std::uint32_t>> hosts_from(std::string_view field, const text::place& place);

CAUSEWAY_DECL result<fault> fault_from(std::string_view line, const text::place& place);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FAULT_PLAN_HPP

// ---- causeway/sim/impl/fault_plan.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_FAULT_PLAN_IPP
#define CAUSEWAY_SIM_IMPL_FAULT_PLAN_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL bool fault_plan::is_undo(std::size_t i) const {
  return std::any_of(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const fault& earlier) { return undoes(faults[i], earlier); });
}

CAUSEWAY_DECL bool undoes(const fault& later, const fault& earlier) {
  const auto wanted = detail::opposite(earlier.kind);
  if (!wanted || later.kind != *wanted || later.hosts != earlier.hosts || later.others != earlier.others) return false;
  if (later.kind != earlier.kind) return true;
  return later.amount == detail::normal_amount(later.kind) && earlier.amount != later.amount;
}

CAUSEWAY_DECL void fault_plan::sort() {
  std::stable_sort(faults.begin(), faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; });
}

CAUSEWAY_DECL time_point fault_plan::end() const {
  time_point last{};
  for (const fault& f : faults) last = std::max(last, f.at);
  return last;
}

CAUSEWAY_DECL std::uint32_t fault_plan::hosts() const {
  std::uint32_t count = 0;
  for (const fault& f : faults) {
    for (const std::uint32_t host : f.hosts) count = std::max(count, host + 1);
    for (const std::uint32_t host : f.others) count = std::max(count, host + 1);
  }
  return count;
}

CAUSEWAY_DECL fault_plan fault_plan::without(std::size_t i) const {
  const auto first = faults.begin() + static_cast<std::ptrdiff_t>(i);
  const auto undo = std::find_if(first + 1, faults.end(), [&](const fault& later) { return undoes(later, *first); });
  fault_plan rest;
  for (auto f = faults.begin(); f != faults.end(); ++f) {
    if (f != first && f != undo) rest.faults.push_back(*f);
  }
  return rest;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::string host_list(const std::vector<std::uint32_t>& hosts) {
  std::string text;
  for (const std::uint32_t host : hosts) text += (text.empty() ? "" : ",") + std::to_string(host);
  return text;
}

CAUSEWAY_DECL std::string exact(double value) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

CAUSEWAY_DECL std::string exact(time_point at) {
  const auto nanoseconds = static_cast<std::uint64_t>(at.since_start.count());
  std::string text = std::to_string(nanoseconds / 1'000'000'000);
  std::string rest = std::to_string(nanoseconds % 1'000'000'000);
  rest.insert(0, 9 - rest.size(), '0');
  rest.erase(rest.find_last_not_of('0') + 1);
  return rest.empty() ? text : text + '.' + rest;
}

CAUSEWAY_DECL result<time_point> moment_from(std::string_view field, const text::place& place) {
  const std::size_t dot = std::min(field.find('.'), field.size());
  CAUSEWAY_ASSIGN(const std::uint64_t whole,
                  text::number_from<std::uint64_t>(field.substr(0, dot), place, "the time in seconds"));
  if (whole > 9'000'000'000U) return place.wrong("the time is out of range");
  std::uint64_t fraction = 0;
  if (dot < field.size()) {
    std::string digits{field.substr(dot + 1)};
    if (digits.empty() || digits.size() > 9) return place.wrong("the time needs one to nine decimals after the point");
    digits.append(9 - digits.size(), '0');
    CAUSEWAY_ASSIGN(fraction, text::number_from<std::uint64_t>(digits, place, "the time in seconds"));
  }
  return time_point{duration{static_cast<std::int64_t>(whole * 1'000'000'000 + fraction)}};
}

CAUSEWAY_DECL result<std::vector<std::uint32_t>> hosts_from(std::string_view field, const text::place& place) {
  std::vector<std::uint32_t> hosts;
  for (const std::string_view part : text::split(field, ',')) {
    CAUSEWAY_ASSIGN(const auto host, text::number_from<std::uint32_t>(part, place, "a host"));
    if (host >= 1'000'000) return place.wrong("hosts are numbered from 0 to 999999");
    hosts.push_back(host);
  }
  return hosts;
}

CAUSEWAY_DECL result<fault> fault_from(std::string_view line, const text::place& place) {
  std::vector<std::string_view> words;
  for (const std::string_view word : text::split(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  if (words.size() < 3) return place.wrong("wants: seconds, what happens, hosts");
  fault f;
  CAUSEWAY_ASSIGN(f.at, moment_from(words[0], place));
  const auto name = std::find(fault_names.begin(), fault_names.end(), words[1]);
  if (name == fault_names.end()) return place.wrong("does not know \"" + std::string{words[1].substr(0, 40)} + '"');
  f.kind = static_cast<fault_kind>(name - fault_names.begin());
  CAUSEWAY_ASSIGN(f.hosts, hosts_from(words[2], place));
  std::size_t next = 3;
  if (between_hosts(f.kind)) {
    if (words.size() < 5 || words[3] != "|") return place.wrong("wants other hosts too: 0,1 | 2,3");
    CAUSEWAY_ASSIGN(f.others, hosts_from(words[4], place));
    next = 5;
  }
  if (has_amount(f.kind)) {
    if (words.size() <= next) return place.wrong("wants an amount at its end");
    constexpr double most = std::numeric_limits<double>::max();
    CAUSEWAY_ASSIGN(f.amount, text::number_between(words[next++], 0, most, place, "the amount"));
  }
  if (words.size() != next) return place.wrong("has more words than it should");
  return f;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL std::string fault_plan::text() const {
  std::string all;
  for (const fault& f : faults) {
    all += detail::exact(f.at) + ' ' + std::string{to_string(f.kind)} + ' ' + detail::host_list(f.hosts);
    if (detail::between_hosts(f.kind)) all += " | " + detail::host_list(f.others);
    if (detail::has_amount(f.kind)) all += ' ' + detail::exact(f.amount);
    all += '\n';
  }
  return all;
}

CAUSEWAY_DECL result<fault_plan> fault_plan::parse(std::string_view text, const std::string& name) {
  fault_plan plan;
  CAUSEWAY_TRY(text::for_each_line(text, name, [&](std::string_view line, const text::place& place) -> result<void> {
    CAUSEWAY_ASSIGN(fault read, detail::fault_from(line, place));
    plan.faults.push_back(std::move(read));
    return {};
  }));
  return plan;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FAULT_PLAN_IPP
#endif

// ---- causeway/sim/fault_apply.hpp ----
#ifndef CAUSEWAY_SIM_FAULT_APPLY_HPP
#define CAUSEWAY_SIM_FAULT_APPLY_HPP

// Has a fault plan happen in a world. The world is a template parameter: whatever has the functions of sim::world will do.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// For worlds whose hosts have no sim::disk.
struct no_disks {
  disk* operator()(std::uint32_t) const noexcept { return nullptr; }
};

/// Has all of it happen in `world` (a sim::world, not yet past the first fault). `disk_of(host)` gives the host's disk or
/// nullptr; the disks must live as long as the world. With a disk, power_off loses what was not synced, and any new process
/// finds neither open files nor injected faults. errc::invalid_argument if the plan needs a host or a disk that is not
/// there.
template <class World, class DiskOf = no_disks>
[[nodiscard]] result<void> apply(const fault_plan& plan, World& world, DiskOf disk_of = {});

namespace detail {

template <class F>
void for_lines(const fault& f, F&& line) {
  for (const std::uint32_t from : f.hosts) {
    for (const std::uint32_t to : f.others) {
      if (from != to) line(from, to);
    }
  }
}

template <class World>
void happen_between(const fault& f, World& world) {
  switch (f.kind) {
    case fault_kind::partition: return world.partition(f.hosts, f.others);
    case fault_kind::heal: return world.heal(f.hosts, f.others);
    case fault_kind::block: return world.partition(f.hosts, f.others, true);
    case fault_kind::unblock: return world.heal(f.hosts, f.others, true);
    default: break;
  }
  if (of_messages(f.kind)) {
    const auto what = static_cast<mishap>(static_cast<int>(f.kind) - static_cast<int>(fault_kind::damage));
    return for_lines(f, [&](auto from, auto to) { world.set_mishap(from, to, what, std::min(f.amount, 1.0)); });
  }
  if (f.kind == fault_kind::lose_stream) return for_lines(f, [&](auto from, auto to) { world.lose_stream(from, to); });
  const double rate = f.amount > 0 ? f.amount : std::numeric_limits<double>::infinity();
  for_lines(f, [&](auto from, auto to) {
    world.slow_link(from, to, rate);
    world.slow_link(to, from, rate);
  });
}

CAUSEWAY_DECL disk_timing timing_after(const fault& f, disk_timing now);

CAUSEWAY_DECL void happen_on_disk(const fault& f, disk& on);

/// `was_off`: the host lost its power before this restart.
template <class World>
void happen_to_host(const fault& f, std::uint32_t host, World& world, disk* on, bool was_off) {
  switch (f.kind) {
    case fault_kind::kill: return world.kill(host);
    case fault_kind::power_off: return world.power_off(host);
    case fault_kind::stop: return world.stop(host);
    case fault_kind::resume: return world.resume(host);
    case fault_kind::clock_rate: return world.set_clock_rate(host, f.amount > 0 ? std::clamp(f.amount, 0.01, 100.0) : 1);
    case fault_kind::clock_jump: return world.jump_clock(host, from_seconds(std::min(f.amount, 1e9)));
    case fault_kind::descriptors: return world.limit_connections(host, static_cast<std::uint64_t>(std::min(f.amount, 1e9)));
    case fault_kind::no_memory: return world.set_no_memory(host, std::min(f.amount, 1.0));
    case fault_kind::speed: return world.set_speed(host, f.amount > 0 ? f.amount : 1);
    case fault_kind::restart:
      if (on != nullptr && was_off) on->crash();
      if (on != nullptr && !was_off) on->kill();
      return world.restart(host);
    default: happen_on_disk(f, *on);
  }
}

}  // namespace detail

template <class World, class DiskOf>
result<void> apply(const fault_plan& plan, World& world, DiskOf disk_of) {
  if (plan.hosts() > world.hosts()) {
    return fail(errc::invalid_argument, "fault plan",
                "names host " + std::to_string(plan.hosts() - 1) + ", the world has " + std::to_string(world.hosts()));
  }
  for (const fault& f : plan.faults) {
    for (const std::uint32_t host : f.hosts) {
      if (!detail::of_the_disk(f.kind) || disk_of(host) != nullptr) continue;
      return fail(errc::invalid_argument, "fault plan", "host " + std::to_string(host) + " has no disk that could fail");
    }
  }
  for (const fault& f : plan.faults) {
    if (f.kind != fault_kind::slow_disk && f.kind != fault_kind::slow_sync) continue;
    for (const std::uint32_t host : f.hosts) {
      disk* const on = disk_of(host);
      if (on != nullptr) on->set_waiter([host, &world](duration d) { world.wait_for_disk(host, d); });
    }
  }
  fault_plan sorted = plan;
  sorted.sort();
  std::set<std::uint32_t> off;
  for (const fault& f : sorted.faults) {
    if (detail::between_hosts(f.kind)) world.at(f.at, [f, &world] { detail::happen_between(f, world); });
    if (detail::between_hosts(f.kind)) continue;
    for (const std::uint32_t host : f.hosts) {
      const bool was_off = f.kind == fault_kind::restart && off.erase(host) > 0;
      if (f.kind == fault_kind::power_off) off.insert(host);
      disk* const on = disk_of(host);
      world.at(f.at, [f, host, on, was_off, &world] { detail::happen_to_host(f, host, world, on, was_off); });
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FAULT_APPLY_HPP

// ---- causeway/sim/impl/fault_apply.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_FAULT_APPLY_IPP
#define CAUSEWAY_SIM_IMPL_FAULT_APPLY_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL disk_timing timing_after(const fault& f, disk_timing now) {
  if (f.kind == fault_kind::slow_disk) now.bytes_per_s = f.amount > 0 ? f.amount : disk_timing{}.bytes_per_s;
  if (f.kind == fault_kind::slow_sync) now.sync = from_seconds(std::min(f.amount, 1e9));
  return now;
}

CAUSEWAY_DECL void happen_on_disk(const fault& f, disk& on) {
  if (f.kind == fault_kind::slow_disk || f.kind == fault_kind::slow_sync)
    return on.set_timing(timing_after(f, on.timing()));
  const auto nth = static_cast<std::uint64_t>(std::clamp(f.amount, 1.0, 1e9));
  switch (f.kind) {
    case fault_kind::fail_write: return on.set_faults({.fail_write = nth});
    case fault_kind::fail_sync: return on.set_faults({.fail_sync = nth});
    case fault_kind::disk_full:
      return on.set_faults(
          {.capacity = f.amount > 0 ? static_cast<std::uint64_t>(std::min(f.amount, 1e18)) : disk_faults::unlimited});
    default: (void)on.flip_any();
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_FAULT_APPLY_IPP
#endif

// ---- causeway/sim/fault_profile.hpp ----
#ifndef CAUSEWAY_SIM_FAULT_PROFILE_HPP
#define CAUSEWAY_SIM_FAULT_PROFILE_HPP

// Fault plans from a seed, and from traces of machines that come and go. Whatever a generated plan breaks it also mends,
// early enough before its end that a run can be asked to go on.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// How long a host lives.
enum class lifetime : std::uint8_t {
  memoryless,  ///< exponential
  bathtub,     ///< dies early or at the end of its time, as preemptible machines with a time limit do
};

/// Mean times between faults, of each host unless it says otherwise; 0: never. What lasts is uniform in [least, most].
struct fault_profile {
  duration kill_every{0};
  lifetime life = lifetime::memoryless;
  double power_off = 0.5;  ///< part of the kills that take the machine, and what its disk had not synced
  duration down_least = std::chrono::seconds{30};
  duration down_most = std::chrono::seconds{180};

  duration stop_every{0};  ///< the process stands still
  duration stop_least = std::chrono::seconds{1};
  duration stop_most = std::chrono::seconds{60};

  duration partition_every{0};  ///< of the whole cluster, in two random parts
  duration partition_least = std::chrono::seconds{120};
  duration partition_most = std::chrono::seconds{120};
  double one_way = 0;  ///< part of the partitions that block only one direction

  duration slow_every{0};  ///< the line to one other host
  duration slow_least = std::chrono::seconds{10};
  duration slow_most = std::chrono::seconds{300};
  double slow_bytes_per_s = 125e3;

  double stragglers = 0;  ///< part of the hosts that compute `slowdown` times slower from the start on
  double slowdown = 3;

  duration disk_every{0};  ///< a write or an fsync fails, the disk is full for a while, or a bit flips

  duration message_every{0};  ///< messages to one other host are damaged, repeated or reordered, or a stream is lost
  duration message_least = std::chrono::seconds{1};
  duration message_most = std::chrono::seconds{30};
  double message_chance = 0.05;  ///< part of the messages
  duration alter_every{0};       ///< data to one other host has another value in it, for as long and as often

  duration slow_disk_every{0};  ///< each fsync takes its time, or the disk writes slowly
  duration slow_disk_least = std::chrono::seconds{1};
  duration slow_disk_most = std::chrono::seconds{60};
  double sync_seconds = 30;  ///< at most, for one fsync
  double disk_bytes_per_s = 1e4;

  duration clock_every{0};  ///< a clock jumps forward by at most `clock_jump`, or runs at another rate for a while
  duration clock_jump = std::chrono::seconds{30};
  double clock_drift = 0.01;  ///< how far the rate is off, at most

  duration scarce_every{0};  ///< no descriptors for new connections, or no memory for some messages
  duration scarce_least = std::chrono::seconds{1};
  duration scarce_most = std::chrono::seconds{30};
};

/// Every kind of fault that messages, disks, clocks and resources have, often enough for a run of a minute to meet some.
CAUSEWAY_DECL [[nodiscard]] fault_profile hostile_profile();

/// Volunteers' machines: each lives 20 minutes in the mean and is gone for 30 to 180 s, one in twenty is three times
/// slower, and for two minutes an hour the cluster falls in two.
CAUSEWAY_DECL [[nodiscard]] fault_profile harsh_profile();

/// Rented servers: each dies once a day and is back in 2 to 10 minutes, one in a hundred is half as slow again, and for
/// half a minute a day a part of them cannot be reached.
CAUSEWAY_DECL [[nodiscard]] fault_profile datacentre_profile();

/// A plan for hosts 0 to `hosts` - 1. Faults begin and end within [0, horizon): afterwards all hosts run at their speed,
/// all lines are open, and no disk is full.
CAUSEWAY_DECL [[nodiscard]] fault_plan random_plan(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                                   std::uint64_t seed);

/// FoundationDB's swizzle: cuts the hosts of `cut` off from all others one by one, in random order, and connects them again
/// in another one. Begins at `begin` and takes `length`.
CAUSEWAY_DECL [[nodiscard]] fault_plan swizzle(std::vector<std::uint32_t> cut, std::uint32_t hosts, time_point begin,
                                               duration length, std::uint64_t seed);

/// A trace of preemptions: CSV `seconds,host,event`, event = preempt or join. A preempted host loses its power. Hosts that
/// the trace leaves preempted stay so.
CAUSEWAY_DECL [[nodiscard]] result<fault_plan> parse_preemptions(std::string_view text, const std::string& name = "trace");

/// A draw from the profile's lifetimes. Bathtub: Kadupitiya et al. 2020, F(t) = A (1 - exp(-t/a) + exp((t - b)/c)), with
/// their shape (a limit of 24 h, a = 1 h, c = 0.8 h, A = 1/2), scaled to `mean`.
CAUSEWAY_DECL [[nodiscard]] duration draw_lifetime(lifetime life, duration mean, rng& draws);

namespace detail {

inline double uniform(rng& draws) { return (static_cast<double>(draws.next() >> 11U) + 0.5) * 0x1.0p-53; }

inline duration exponential(duration mean, rng& draws) { return from_seconds(-seconds(mean) * std::log(uniform(draws))); }

CAUSEWAY_DECL duration between(duration least, duration most, rng& draws);

/// Adds the faults of one profile to a plan. Each host and each kind of fault has draws of its own, so that another rate
/// for one changes nothing for the others.
class plan_writer {
 public:
  CAUSEWAY_DECL plan_writer(const fault_profile& profile, std::uint32_t hosts, duration horizon, std::uint64_t seed);

  CAUSEWAY_DECL fault_plan write();

 private:
  [[nodiscard]] rng draws_of(std::uint64_t purpose, std::uint64_t host) const { return rng{seed_, mix(purpose, host)}; }

  CAUSEWAY_DECL void add(duration at, fault_kind kind, std::vector<std::uint32_t> hosts,
                         std::vector<std::uint32_t> others = {}, double amount = 0);

  // Calls `break_it(begin, end)` for one period after another, none past the end of the plan.
  template <class Gap, class Break>
  void periods(Gap gap, duration least, duration most, rng& draws, Break break_it) {
    for (duration begin = gap(); begin < last_;) {
      const duration end = std::min(begin + between(least, most, draws), last_);
      break_it(begin, end);
      begin = end + gap();
    }
  }

  template <class Break>
  void periods_every(duration mean, duration least, duration most, rng& draws, Break break_it) {
    if (mean > duration{0}) periods([&] { return exponential(mean, draws); }, least, most, draws, break_it);
  }

  CAUSEWAY_DECL void kills(std::uint32_t host);

  CAUSEWAY_DECL void stops(std::uint32_t host);

  CAUSEWAY_DECL void slow_lines(std::uint32_t host);

  CAUSEWAY_DECL void disk_faults(std::uint32_t host);

  CAUSEWAY_DECL [[nodiscard]] std::uint32_t another(std::uint32_t host, rng& draws) const;

  CAUSEWAY_DECL void messages(std::uint32_t host);

  CAUSEWAY_DECL void altered_data(std::uint32_t host);

  CAUSEWAY_DECL void slow_disks(std::uint32_t host);

  CAUSEWAY_DECL void clocks(std::uint32_t host);

  CAUSEWAY_DECL void scarcity(std::uint32_t host);

  CAUSEWAY_DECL void stragglers();

  CAUSEWAY_DECL void partitions();

  fault_profile profile_;
  std::uint32_t hosts_;
  duration last_;
  std::uint64_t seed_;
  fault_plan plan_;
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FAULT_PROFILE_HPP

// ---- causeway/sim/impl/fault_profile.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_FAULT_PROFILE_IPP
#define CAUSEWAY_SIM_IMPL_FAULT_PROFILE_IPP

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL fault_profile hostile_profile() {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  return {.kill_every = seconds{60},
          .down_least = milliseconds{500},
          .down_most = seconds{10},
          .partition_every = seconds{60},
          .partition_least = seconds{1},
          .partition_most = seconds{5},
          .one_way = 0.4,
          .disk_every = seconds{120},
          .message_every = seconds{20},
          .message_most = seconds{10},
          .alter_every = seconds{120},
          .slow_disk_every = seconds{60},
          .slow_disk_most = seconds{20},
          .clock_every = seconds{60},
          .scarce_every = seconds{60},
          .scarce_most = seconds{10}};
}

CAUSEWAY_DECL fault_profile harsh_profile() {
  return {
      .kill_every = std::chrono::minutes{20}, .partition_every = std::chrono::hours{1}, .stragglers = 0.05, .slowdown = 3};
}

CAUSEWAY_DECL fault_profile datacentre_profile() {
  return {.kill_every = std::chrono::hours{24},
          .down_least = std::chrono::minutes{2},
          .down_most = std::chrono::minutes{10},
          .partition_every = std::chrono::hours{24},
          .partition_least = std::chrono::seconds{30},
          .partition_most = std::chrono::seconds{30},
          .stragglers = 0.01,
          .slowdown = 1.5};
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL duration between(duration least, duration most, rng& draws) {
  return most <= least
             ? least
             : least +
                   duration{static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>((most - least).count()) + 1))};
}

CAUSEWAY_DECL plan_writer::plan_writer(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                       std::uint64_t seed)
    : profile_{profile}, hosts_{hosts}, last_{horizon - duration{1}}, seed_{seed} {}

CAUSEWAY_DECL fault_plan plan_writer::write() {
  for (std::uint32_t host = 0; host < hosts_; ++host) {
    kills(host);
    stops(host);
    slow_lines(host);
    disk_faults(host);
    messages(host);
    altered_data(host);
    slow_disks(host);
    clocks(host);
    scarcity(host);
  }
  stragglers();
  partitions();
  plan_.sort();
  return std::move(plan_);
}

CAUSEWAY_DECL void plan_writer::add(duration at, fault_kind kind, std::vector<std::uint32_t> hosts,
                                    std::vector<std::uint32_t> others, double amount) {
  plan_.faults.push_back({time_point{at}, kind, std::move(hosts), std::move(others), amount});
}

CAUSEWAY_DECL void plan_writer::kills(std::uint32_t host) {
  if (profile_.kill_every <= duration{0}) return;
  rng draws = draws_of(1, host);
  const auto life = [&] { return draw_lifetime(profile_.life, profile_.kill_every, draws); };
  periods(life, profile_.down_least, profile_.down_most, draws, [&](duration begin, duration end) {
    add(begin, uniform(draws) < profile_.power_off ? fault_kind::power_off : fault_kind::kill, {host});
    add(end, fault_kind::restart, {host});
  });
}

CAUSEWAY_DECL void plan_writer::stops(std::uint32_t host) {
  rng draws = draws_of(2, host);
  periods_every(profile_.stop_every, profile_.stop_least, profile_.stop_most, draws, [&](duration begin, duration end) {
    add(begin, fault_kind::stop, {host});
    add(end, fault_kind::resume, {host});
  });
}

CAUSEWAY_DECL void plan_writer::slow_lines(std::uint32_t host) {
  if (hosts_ < 2) return;
  rng draws = draws_of(3, host);
  periods_every(profile_.slow_every, profile_.slow_least, profile_.slow_most, draws, [&](duration begin, duration end) {
    const auto other = static_cast<std::uint32_t>((host + 1 + draws.below(hosts_ - 1)) % hosts_);
    add(begin, fault_kind::slow_link, {host}, {other}, profile_.slow_bytes_per_s);
    add(end, fault_kind::slow_link, {host}, {other}, 0);
  });
}

CAUSEWAY_DECL void plan_writer::disk_faults(std::uint32_t host) {
  rng draws = draws_of(4, host);
  const duration least = std::chrono::seconds{1};
  const duration most = std::chrono::seconds{60};
  periods_every(profile_.disk_every, least, most, draws, [&](duration begin, duration end) {
    switch (draws.below(4)) {
      case 0: return add(begin, fault_kind::fail_write, {host}, {}, static_cast<double>(1 + draws.below(10)));
      case 1: return add(begin, fault_kind::fail_sync, {host}, {}, 1);
      case 2: return add(begin, fault_kind::flip, {host});
      default: add(begin, fault_kind::disk_full, {host}, {}, 1); add(end, fault_kind::disk_full, {host}, {}, 0);
    }
  });
}

CAUSEWAY_DECL std::uint32_t plan_writer::another(std::uint32_t host, rng& draws) const {
  return static_cast<std::uint32_t>((host + 1 + draws.below(hosts_ - 1)) % hosts_);
}

CAUSEWAY_DECL void plan_writer::messages(std::uint32_t host) {
  if (hosts_ < 2) return;
  rng draws = draws_of(8, host);
  constexpr std::array kinds{fault_kind::damage, fault_kind::repeat, fault_kind::reorder, fault_kind::lose_stream};
  periods_every(profile_.message_every, profile_.message_least, profile_.message_most, draws,
                [&](duration begin, duration end) {
                  const fault_kind kind = kinds[draws.below(kinds.size())];
                  const std::uint32_t other = another(host, draws);
                  if (kind == fault_kind::lose_stream) return add(begin, kind, {host}, {other});
                  add(begin, kind, {host}, {other}, profile_.message_chance);
                  add(end, kind, {host}, {other}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::altered_data(std::uint32_t host) {
  if (hosts_ < 2) return;
  rng draws = draws_of(9, host);
  periods_every(profile_.alter_every, profile_.message_least, profile_.message_most, draws,
                [&](duration begin, duration end) {
                  const std::uint32_t other = another(host, draws);
                  add(begin, fault_kind::alter, {host}, {other}, profile_.message_chance);
                  add(end, fault_kind::alter, {host}, {other}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::slow_disks(std::uint32_t host) {
  rng draws = draws_of(10, host);
  periods_every(profile_.slow_disk_every, profile_.slow_disk_least, profile_.slow_disk_most, draws,
                [&](duration begin, duration end) {
                  const bool sync = draws.below(2) == 0;
                  const double amount = sync ? profile_.sync_seconds * uniform(draws) : profile_.disk_bytes_per_s;
                  add(begin, sync ? fault_kind::slow_sync : fault_kind::slow_disk, {host}, {}, amount);
                  add(end, sync ? fault_kind::slow_sync : fault_kind::slow_disk, {host}, {}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::clocks(std::uint32_t host) {
  rng draws = draws_of(11, host);
  const duration least = std::chrono::seconds{1};
  const duration most = std::chrono::minutes{5};
  periods_every(profile_.clock_every, least, most, draws, [&](duration begin, duration end) {
    if (draws.below(2) == 0) {
      return add(begin, fault_kind::clock_jump, {host}, {}, seconds(profile_.clock_jump) * uniform(draws));
    }
    add(begin, fault_kind::clock_rate, {host}, {}, 1 + profile_.clock_drift * (2 * uniform(draws) - 1));
    add(end, fault_kind::clock_rate, {host}, {}, 1);
  });
}

CAUSEWAY_DECL void plan_writer::scarcity(std::uint32_t host) {
  rng draws = draws_of(12, host);
  periods_every(profile_.scarce_every, profile_.scarce_least, profile_.scarce_most, draws,
                [&](duration begin, duration end) {
                  const bool memory = draws.below(2) == 0;
                  const fault_kind kind = memory ? fault_kind::no_memory : fault_kind::descriptors;
                  add(begin, kind, {host}, {}, memory ? profile_.message_chance : 1);
                  add(end, kind, {host}, {}, 0);
                });
}

CAUSEWAY_DECL void plan_writer::stragglers() {
  rng draws = draws_of(5, 0);
  for (std::uint32_t host = 0; host < hosts_; ++host) {
    if (uniform(draws) >= profile_.stragglers) continue;
    add(duration{0}, fault_kind::speed, {host}, {}, 1 / profile_.slowdown);
    add(last_, fault_kind::speed, {host}, {}, 1);
  }
}

CAUSEWAY_DECL void plan_writer::partitions() {
  if (hosts_ < 2) return;
  rng draws = draws_of(6, 0);
  periods_every(profile_.partition_every, profile_.partition_least, profile_.partition_most, draws,
                [&](duration begin, duration end) {
                  std::vector<std::uint32_t> one(hosts_);
                  std::iota(one.begin(), one.end(), 0U);
                  shuffle(one, draws);
                  const auto cut = one.begin() + static_cast<std::ptrdiff_t>(1 + draws.below(hosts_ - 1));
                  std::vector<std::uint32_t> other(cut, one.end());
                  one.erase(cut, one.end());
                  const bool one_way = uniform(draws) < profile_.one_way;
                  add(begin, one_way ? fault_kind::block : fault_kind::partition, one, other);
                  add(end, one_way ? fault_kind::unblock : fault_kind::heal, one, other);
                });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL duration draw_lifetime(lifetime life, duration mean, rng& draws) {
  if (life == lifetime::memoryless) return detail::exponential(mean, draws);
  const double wanted = detail::uniform(draws);
  const auto died_by = [](double t) { return 0.5 * (1 - std::exp(-t) + std::exp((t - 24) / 0.8)); };
  double low = 0;
  double high = 24;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (died_by(middle) < wanted ? low : high) = middle;
  }
  constexpr double mean_of_shape = 12.1;  // hours: half die after one in the mean, half 0.8 before the limit
  return detail::from_seconds(seconds(mean) * low / mean_of_shape);
}

CAUSEWAY_DECL fault_plan random_plan(const fault_profile& profile, std::uint32_t hosts, duration horizon,
                                     std::uint64_t seed) {
  CAUSEWAY_EXPECT(horizon > duration{0});
  return detail::plan_writer{profile, hosts, horizon, seed}.write();
}

CAUSEWAY_DECL fault_plan swizzle(std::vector<std::uint32_t> cut, std::uint32_t hosts, time_point begin, duration length,
                                 std::uint64_t seed) {
  rng draws{seed, mix(7)};
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(cut.size(), 1));
  const duration step = length / (2 * count);
  fault_plan plan;
  const auto go_through = [&](fault_kind kind, time_point at) {
    shuffle(cut, draws);
    for (const std::uint32_t host : cut) {
      std::vector<std::uint32_t> others;
      for (std::uint32_t other = 0; other < hosts; ++other) {
        if (other != host) others.push_back(other);
      }
      plan.faults.push_back({at, kind, {host}, std::move(others), 0});
      at = at + step;
    }
  };
  go_through(fault_kind::partition, begin);
  go_through(fault_kind::heal, begin + step * count);
  return plan;
}

CAUSEWAY_DECL result<fault_plan> parse_preemptions(std::string_view text, const std::string& name) {
  fault_plan plan;
  bool header = false;
  CAUSEWAY_TRY(text::for_each_line(text, name, [&](std::string_view line, const text::place& place) -> result<void> {
    const auto fields = text::split(line, ',');
    if (!std::exchange(header, true)) {
      if (fields == std::vector<std::string_view>{"seconds", "host", "event"}) return {};
      return place.wrong("the first line must be \"seconds,host,event\"");
    }
    if (fields.size() != 3) return place.wrong("wants three fields: seconds,host,event");
    fault f;
    CAUSEWAY_ASSIGN(f.at, detail::moment_from(fields[0], place));
    CAUSEWAY_ASSIGN(f.hosts, detail::hosts_from(fields[1], place));
    if (fields[2] != "preempt" && fields[2] != "join") return place.wrong("the event must be preempt or join");
    f.kind = fields[2] == "join" ? fault_kind::restart : fault_kind::power_off;
    plan.faults.push_back(std::move(f));
    return {};
  }));
  plan.sort();
  return plan;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FAULT_PROFILE_IPP
#endif

// ---- causeway/sim/link_table.hpp ----
#ifndef CAUSEWAY_SIM_LINK_TABLE_HPP
#define CAUSEWAY_SIM_LINK_TABLE_HPP

// Measured networks from text: how long a packet takes from one region to another, and what one connection carries. The
// format is in docs/reference/simulation_files.md.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// One direction between two regions, or within one.
struct region_link {
  std::string from;
  std::string to;
  duration one_way{0};
  double bytes_per_s = 0;
  duration jitter{0};
  double loss = 0;  ///< part of the packets, in [0, 1)
};

/// A network between regions.
class link_table {
 public:
  /// Reads CSV; `name` is for messages. errc::bad_text names the line; errc::too_large beyond 16 MiB or 4,096 regions.
  CAUSEWAY_DECL static result<link_table> parse(std::string_view text, const std::string& name = "link table");

  /// In the order of their first mention.
  [[nodiscard]] const std::vector<std::string>& regions() const noexcept { return regions_; }

  CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint32_t> index_of(std::string_view region) const;

  /// The link from one region to another, by their places in `regions`; nullptr if the table has none.
  CAUSEWAY_DECL [[nodiscard]] const region_link* find(std::uint32_t from, std::uint32_t to) const;

  /// Pairs of regions that have no link.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::pair<std::string, std::string>> missing() const;

  /// Gives a sim::world these links: region n of the world is region n of the table.
  template <class World>
  void apply_to(World& world) const {
    for (const auto& [pair, l] : links_) {
      world.set_region_link(pair.first, pair.second, {l.one_way, l.bytes_per_s, l.jitter, l.loss});
    }
  }

 private:
  static constexpr std::size_t most_regions = 4096;

  struct columns {
    bool round_trip = true;
    std::size_t count = 0;
  };

  CAUSEWAY_DECL static result<columns> read_header(std::string_view line, const text::place& place);
  CAUSEWAY_DECL result<void> read_row(std::string_view line, const columns& header, const text::place& place);
  CAUSEWAY_DECL result<std::uint32_t> region(std::string_view name, const text::place& place);

  std::vector<std::string> regions_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, region_link> links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> mirrored_;  // came from a row of the other direction
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_LINK_TABLE_HPP

// ---- causeway/sim/impl/link_table.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_LINK_TABLE_IPP
#define CAUSEWAY_SIM_IMPL_LINK_TABLE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL std::optional<std::uint32_t> link_table::index_of(std::string_view region) const {
  const auto found = std::find(regions_.begin(), regions_.end(), region);
  if (found == regions_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - regions_.begin());
}

CAUSEWAY_DECL const region_link* link_table::find(std::uint32_t from, std::uint32_t to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL result<link_table> link_table::parse(std::string_view text, const std::string& name) {
  link_table table;
  std::optional<columns> header;
  CAUSEWAY_TRY(text::for_each_line(text, name, [&](std::string_view line, const text::place& place) -> result<void> {
    if (header) return table.read_row(line, *header, place);
    CAUSEWAY_ASSIGN(header, read_header(line, place));
    return {};
  }));
  if (table.links_.empty()) return fail(errc::bad_text, name, "holds no links");
  return table;
}

CAUSEWAY_DECL result<link_table::columns> link_table::read_header(std::string_view line, const text::place& place) {
  const auto names = text::split(line, ',');
  const std::vector<std::string_view> wanted{"from", "to", "rtt_ms", "mbit_s", "jitter_ms", "loss"};
  columns header{names.size() < 3 || names[2] != "one_way_ms", names.size()};
  bool right = names.size() >= 4 && names.size() <= wanted.size();
  for (std::size_t i = 0; i < names.size() && right; ++i) right = names[i] == wanted[i] || (i == 2 && !header.round_trip);
  if (right) return header;
  return place.wrong("the first line must be \"from,to,rtt_ms,mbit_s[,jitter_ms[,loss]]\", or with one_way_ms");
}

CAUSEWAY_DECL result<std::uint32_t> link_table::region(std::string_view name, const text::place& place) {
  if (name.empty() || name.size() > 100) return place.wrong("a region needs a name of 1 to 100 bytes");
  if (const auto known = index_of(name)) return *known;
  if (regions_.size() == most_regions) return fail(errc::too_large, place.name, "more than 4,096 regions");
  regions_.emplace_back(name);
  return static_cast<std::uint32_t>(regions_.size() - 1);
}

CAUSEWAY_DECL result<void> link_table::read_row(std::string_view line, const columns& header, const text::place& place) {
  const auto fields = text::split(line, ',');
  if (fields.size() != header.count) {
    return place.wrong("has " + std::to_string(fields.size()) + " fields, the first line has " +
                       std::to_string(header.count));
  }
  CAUSEWAY_ASSIGN(const std::uint32_t from, region(fields[0], place));
  CAUSEWAY_ASSIGN(const std::uint32_t to, region(fields[1], place));
  region_link link{regions_[from], regions_[to]};
  CAUSEWAY_ASSIGN(const double latency, text::number_between(fields[2], 0, 1e6, place, "the latency in ms"));
  CAUSEWAY_ASSIGN(const double rate, text::number_between(fields[3], 1e-6, 1e9, place, "the rate in Mbit/s"));
  link.one_way = detail::from_seconds(latency / (header.round_trip ? 2e3 : 1e3));
  link.bytes_per_s = rate * 1e6 / 8;
  if (header.count > 4) {
    CAUSEWAY_ASSIGN(const double jitter, text::number_between(fields[4], 0, 1e6, place, "the jitter in ms"));
    link.jitter = detail::from_seconds(jitter / 1e3);
  }
  if (header.count > 5) {
    CAUSEWAY_ASSIGN(link.loss, text::number_between(fields[5], 0, 0.999, place, "the loss"));
  }
  const auto known = links_.find({from, to});
  if (known != links_.end() && !mirrored_[{from, to}]) return place.wrong("this pair has a link already");
  links_[{from, to}] = link;
  mirrored_[{from, to}] = false;
  if (links_.contains({to, from})) return {};
  std::swap(link.from, link.to);
  links_[{to, from}] = link;
  mirrored_[{to, from}] = true;
  return {};
}

CAUSEWAY_DECL std::vector<std::pair<std::string, std::string>> link_table::missing() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::uint32_t from = 0; from < regions_.size(); ++from) {
    for (std::uint32_t to = 0; to < regions_.size(); ++to) {
      if (find(from, to) == nullptr) pairs.emplace_back(regions_[from], regions_[to]);
    }
  }
  return pairs;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_LINK_TABLE_IPP
#endif

// ---- causeway/sim/transport.hpp ----
#ifndef CAUSEWAY_SIM_TRANSPORT_HPP
#define CAUSEWAY_SIM_TRANSPORT_HPP

// net::Transport over a simulated fabric: a fixed set of peers that all meet before the first message. With it every
// policy, collective and trainer runs on virtual time as it is.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

namespace detail {

inline constexpr std::uint32_t first_transport_port = 1001;

/// Brings fixed peers together: each dials those behind it in the list, again and again until they are there.
class meeting final : public net::fabric_events {
 public:
  CAUSEWAY_DECL meeting(fabric& here, std::uint32_t self, std::vector<std::string> addresses);

  CAUSEWAY_DECL void begin();

  [[nodiscard]] bool complete() const noexcept { return missing_ == 0; }
  [[nodiscard]] const std::vector<net::peer_index>& links() const noexcept { return links_; }
  CAUSEWAY_DECL [[nodiscard]] std::string absent() const;

  CAUSEWAY_INLINE void on_up(net::peer_index link, net::peer_id id, const std::string&) override;
  void on_down(net::peer_index, const error&) override {}
  CAUSEWAY_INLINE void on_unreachable(const std::string& address, const error&) override;
  void on_control(net::peer_index, std::span<const std::byte>) override {}
  CAUSEWAY_INLINE void on_wake() override;

 private:
  fabric& fabric_;
  std::uint32_t self_;
  std::vector<std::string> addresses_;
  std::vector<net::peer_index> links_;
  std::vector<bool> met_;
  std::size_t missing_ = 0;
  std::vector<std::string> again_;
};

}  // namespace detail

/// See process::make_transport. Movable; its destruction says goodbye to the others, who still get what was sent.
class transport {
 public:
  CAUSEWAY_DECL transport(std::unique_ptr<fabric> here, std::unique_ptr<detail::meeting> met, net::peer_index self);

  [[nodiscard]] net::peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(meeting_->links().size()); }

  CAUSEWAY_DECL net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer);
  result<std::size_t> wait(net::operation op, time_point deadline) { return fabric_->wait(op, deadline); }
  [[nodiscard]] bool done(net::operation op) const { return fabric_->done(op); }
  CAUSEWAY_DECL bool wait_any(std::span<const net::operation> ops, time_point deadline);
  [[nodiscard]] traffic stats() const { return fabric_->stats(); }

 private:
  // Peers that do not exist, and this one, are links that do not exist: the fabric says so.
  CAUSEWAY_DECL [[nodiscard]] net::peer_index link_of(net::peer_index peer) const;

  std::unique_ptr<detail::meeting> meeting_;  // after the fabric, which calls it
  std::unique_ptr<fabric> fabric_;
  net::peer_index self_;
};
static_assert(net::Transport<transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_TRANSPORT_HPP

// ---- causeway/sim/impl/transport.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_TRANSPORT_IPP
#define CAUSEWAY_SIM_IMPL_TRANSPORT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL meeting::meeting(fabric& here, std::uint32_t self, std::vector<std::string> addresses)
    : fabric_{here}, self_{self}, addresses_{std::move(addresses)}, links_(addresses_.size()), met_(addresses_.size()) {
  met_[self_] = true;
  missing_ = addresses_.size() - 1;
}

CAUSEWAY_DECL void meeting::begin() {
  fabric_.attach(this);
  for (std::size_t p = self_ + 1; p < addresses_.size(); ++p) fabric_.dial(addresses_[p]);
}

CAUSEWAY_DECL std::string meeting::absent() const {
  std::string names;
  for (std::size_t p = 0; p < met_.size(); ++p) {
    if (!met_[p]) names += (names.empty() ? "peer " : ", peer ") + std::to_string(p);
  }
  return names;
}

CAUSEWAY_INLINE void meeting::on_up(net::peer_index link, net::peer_id id, const std::string&) {
  const auto p = static_cast<std::size_t>(id - 1);
  if (id == 0 || p >= met_.size()) return fabric_.close(link, "not one of this run's peers");
  links_[p] = link;
  fabric_.rename(link, "peer " + std::to_string(p));
  if (!met_[p]) --missing_;
  met_[p] = true;
}

CAUSEWAY_INLINE void meeting::on_unreachable(const std::string& address, const error&) {
  again_.push_back(address);
  fabric_.wake_at(fabric_.now() + std::chrono::milliseconds{100});
}

CAUSEWAY_INLINE void meeting::on_wake() {
  for (const std::string& address : std::exchange(again_, {})) fabric_.dial(address);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL transport::transport(std::unique_ptr<fabric> here, std::unique_ptr<detail::meeting> met, net::peer_index self)
    : meeting_{std::move(met)}, fabric_{std::move(here)}, self_{self} {}

CAUSEWAY_DECL net::operation transport::send(net::peer_index to, const net::message_id& id,
                                             std::span<const std::byte> bytes) {
  return fabric_->send(link_of(to), id, bytes);
}

CAUSEWAY_DECL net::operation transport::receive(net::peer_index from, const net::message_id& id,
                                                std::span<std::byte> buffer) {
  return fabric_->receive(link_of(from), id, buffer);
}

CAUSEWAY_DECL bool transport::wait_any(std::span<const net::operation> ops, time_point deadline) {
  const auto ended = [&] { return std::any_of(ops.begin(), ops.end(), [&](auto op) { return fabric_->done(op); }); };
  return fabric_->block(ended, deadline).value_or(false);
}

CAUSEWAY_DECL net::peer_index transport::link_of(net::peer_index peer) const {
  return peer < size() && peer != self_ ? meeting_->links()[peer] : UINT32_MAX;
}

CAUSEWAY_DECL result<transport> process::make_transport(std::vector<host_index> peers, duration patience) {
  const auto me = std::find(peers.begin(), peers.end(), host_);
  if (me == peers.end()) return fail(errc::invalid_argument, "transport", "this host is not one of the peers");
  const auto self = static_cast<net::peer_index>(me - peers.begin());
  auto here = std::make_unique<fabric>(*this, self + 1, detail::first_transport_port);
  const std::string port = here->address().substr(here->address().rfind(':'));
  std::vector<std::string> addresses;
  for (const host_index h : peers) addresses.push_back(core_.net.at(h).options.name + port);
  auto meeting = std::make_unique<detail::meeting>(*here, self, std::move(addresses));
  meeting->begin();
  const auto outcome = here->block([&] { return meeting->complete(); }, now() + patience);
  if (!outcome) return outcome.error();
  if (!*outcome) return fail(errc::timeout, meeting->absent(), "did not come in time; was it started?");
  return transport{std::move(here), std::move(meeting), self};
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_TRANSPORT_IPP
#endif

// ---- causeway/io/memory_storage.hpp ----
#ifndef CAUSEWAY_IO_MEMORY_STORAGE_HPP
#define CAUSEWAY_IO_MEMORY_STORAGE_HPP

// A disk in memory that can be told to fail. Its faults are those of real disks: a write that is refused, a write that was
// reported done but kept only a prefix (power loss on a disk that ignores fsync), a full disk, a flipped bit.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

/// What goes wrong. Writes are counted from 1 over the life of the storage.
struct storage_faults {
  static constexpr std::uint64_t never = 0;
  static constexpr std::size_t unlimited = ~std::size_t{0};

  std::uint64_t fail_write = never;  ///< this write gives errc::io_failed and changes nothing
  std::uint64_t tear_write = never;  ///< this write succeeds, but only its first `tear_at` bytes are kept
  std::size_t tear_at = 0;           ///< byte
  std::uint64_t flip_write = never;  ///< this write succeeds, but bit `flip_bit` (modulo the length) is wrong
  std::uint64_t flip_bit = 0;        ///< bit
  std::size_t capacity = unlimited;  ///< bytes for all files together; beyond it writes give errc::disk_full
  bool fail_removes = false;         ///< `remove` gives errc::io_failed
};

/// Models Storage. Copies share one disk, as two handles to one folder do. Thread-safe.
class memory_storage {
 public:
  CAUSEWAY_DECL explicit memory_storage(storage_faults faults = {});

  CAUSEWAY_DECL result<void> write_atomic(const std::string& path, const byte_producer& producer);

  CAUSEWAY_DECL result<byte_vector> read(const std::string& path);

  CAUSEWAY_DECL result<std::vector<std::string>> list(const std::string& folder);

  CAUSEWAY_DECL result<void> remove(const std::string& path);

  /// Replaces the faults; counting of writes goes on.
  CAUSEWAY_DECL void set_faults(storage_faults faults);

  /// Number of writes asked for so far.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t writes() const;

 private:
  struct disk {
    std::mutex mutex;
    std::map<std::string, byte_vector> files;
    storage_faults faults;
    std::uint64_t writes = 0;

    /// Counts a write and does to `content` what the faults say.
    CAUSEWAY_DECL result<void> spoil(const std::string& path, byte_vector& content);

    CAUSEWAY_DECL [[nodiscard]] std::size_t used_beside(const std::string& path) const;
  };

  std::shared_ptr<disk> disk_;
};

static_assert(Storage<memory_storage>);

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_MEMORY_STORAGE_HPP

// ---- causeway/io/impl/memory_storage.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_IO_IMPL_MEMORY_STORAGE_IPP
#define CAUSEWAY_IO_IMPL_MEMORY_STORAGE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL memory_storage::memory_storage(storage_faults faults) : disk_{std::make_shared<disk>()} {
  disk_->faults = faults;
}

CAUSEWAY_DECL result<void> memory_storage::write_atomic(const std::string& path, const byte_producer& producer) {
  byte_vector content;
  // The producer runs without the lock: it may read this very storage.
  CAUSEWAY_TRY(producer([&](std::span<const std::byte> piece) -> result<void> {
    content.insert(content.end(), piece.begin(), piece.end());
    return {};
  }));
  const std::lock_guard lock{disk_->mutex};
  CAUSEWAY_TRY(disk_->spoil(path, content));
  disk_->files[path] = std::move(content);
  return {};
}

CAUSEWAY_DECL result<byte_vector> memory_storage::read(const std::string& path) {
  const std::lock_guard lock{disk_->mutex};
  const auto found = disk_->files.find(path);
  if (found == disk_->files.end()) return fail(errc::not_found, path, "there is no such file. Check the path");
  return found->second;
}

CAUSEWAY_DECL result<std::vector<std::string>> memory_storage::list(const std::string& folder) {
  const std::lock_guard lock{disk_->mutex};
  const std::string prefix = folder + '/';
  bool seen = false;
  std::vector<std::string> names;
  for (auto it = disk_->files.lower_bound(prefix); it != disk_->files.end() && it->first.starts_with(prefix); ++it) {
    seen = true;
    std::string name = it->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  if (!seen) return fail(errc::not_found, folder, "there is no such folder. Check the path");
  return names;
}

CAUSEWAY_DECL result<void> memory_storage::remove(const std::string& path) {
  const std::lock_guard lock{disk_->mutex};
  if (disk_->faults.fail_removes) return fail(errc::io_failed, path, "injected fault: the disk refused to remove it");
  disk_->files.erase(path);
  return {};
}

CAUSEWAY_DECL void memory_storage::set_faults(storage_faults faults) {
  const std::lock_guard lock{disk_->mutex};
  disk_->faults = faults;
}

CAUSEWAY_DECL std::uint64_t memory_storage::writes() const {
  const std::lock_guard lock{disk_->mutex};
  return disk_->writes;
}

CAUSEWAY_DECL result<void> memory_storage::disk::spoil(const std::string& path, byte_vector& content) {
  ++writes;
  if (writes == faults.fail_write) return fail(errc::io_failed, path, "injected fault: the disk refused the write");
  if (used_beside(path) + content.size() > faults.capacity) {
    return fail(errc::disk_full, path, "injected fault: no space left. Free some space or choose another folder");
  }
  if (writes == faults.tear_write) content.resize(std::min(content.size(), faults.tear_at));
  if (writes == faults.flip_write && !content.empty()) {
    const std::uint64_t bit = faults.flip_bit % (8 * content.size());
    content[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  return {};
}

CAUSEWAY_DECL std::size_t memory_storage::disk::used_beside(const std::string& path) const {
  std::size_t sum = 0;
  for (const auto& [name, content] : files) sum += name == path ? 0 : content.size();
  return sum;
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_MEMORY_STORAGE_IPP
#endif

// ---- causeway/sim/world.hpp ----
#ifndef CAUSEWAY_SIM_WORLD_HPP
#define CAUSEWAY_SIM_WORLD_HPP

// A whole cluster in one thread, on virtual time: hosts, the lines between them, the programs that run on them, and
// everything that can go wrong. Nothing depends on the machine, the clock or an address: the same program and the same seed
// give the same history, event by event (`history_hash`).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// Not thread-safe, and tied to the thread that runs it. All functions may be called before a run, from its script (`at`,
/// `after`) and from the programs; what would end or start a process happens then as an event of its own, at once.
class world {
 public:
  using program = std::function<void(process&)>;
  using host_set = std::vector<host_index>;

  CAUSEWAY_DECL explicit world(const world_options& options = {});
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Kills what still runs.
  ~world();

  // ---- what it is made of ----------------------------------------------------------------------------------------------

  CAUSEWAY_DECL host_index add_host(host_options options = {});

  [[nodiscard]] std::uint32_t hosts() const noexcept { return static_cast<std::uint32_t>(hosts_.size()); }
  [[nodiscard]] const host_options& options_of(host_index host) { return core_.net.at(host).options; }
  /// Where the first fabric of a host's process is dialled.
  [[nodiscard]] std::string address(host_index host) { return detail::address_text(core_.net, host, 1); }

  /// The line from `from` to `to`; the other direction keeps what it has.
  void set_link(host_index from, host_index to, const link_options& o) { core_.net.wires().links().set(from, to, o); }
  /// All lines from hosts of one region to hosts of another (or the same), but those set by set_link.
  CAUSEWAY_DECL void set_region_link(std::uint32_t from, std::uint32_t to, const link_options& options);
  CAUSEWAY_DECL [[nodiscard]] link_options link(host_index from, host_index to);
  void set_speed(host_index host, double speed) { core_.net.at(host).options.speed = speed; }
  /// The host's disk, from its next process on. None was set: an io::memory_storage.
  void set_storage(host_index host, io::any_storage disk) { hosts_[host].disk = std::move(disk); }
  [[nodiscard]] io::any_storage storage(host_index host) { return hosts_[host].disk; }
  CAUSEWAY_DECL void set_log(world_log log);

  // ---- processes -------------------------------------------------------------------------------------------------------

  /// Starts a process that runs `main` and ends when it returns. One that runs there already is killed first. An exception
  /// out of `main` comes out of run or run_until.
  CAUSEWAY_DECL void boot(host_index host, program main);
  /// As boot, with what was booted last.
  CAUSEWAY_DECL void restart(host_index host);

  /// SIGKILL: the process ends between two blocking calls, its memory is freed, and others hear of it one latency later.
  CAUSEWAY_DECL void kill(host_index host);
  /// The power goes off: as kill, but nobody hears of it before the host is started again.
  CAUSEWAY_DECL void power_off(host_index host);
  /// SIGTERM: process::asked_to_stop becomes true, and what blocks in a fabric gives errc::cancelled.
  CAUSEWAY_DECL void ask_to_stop(host_index host);
  /// SIGSTOP: the process stands still; its kernel accepts connections, and bytes up to a socket buffer.
  CAUSEWAY_DECL void stop(host_index host);
  /// SIGCONT: what came meanwhile happens first.
  CAUSEWAY_DECL void resume(host_index host);

  [[nodiscard]] bool alive(host_index host) const { return hosts_[host].running != nullptr; }
  [[nodiscard]] bool stopped(host_index host) { return core_.net.at(host).frozen != 0; }
  [[nodiscard]] std::uint32_t incarnation(host_index host) const { return hosts_[host].incarnations; }
  /// The process whose code is running right now; nullptr in the script and in handlers of fabrics.
  [[nodiscard]] process* running() noexcept { return core_.running; }

  // ---- the network's faults --------------------------------------------------------------------------------------------

  /// A black hole in one direction: what is sent waits, and comes out after unblock, with up to a second of delay. Calls
  /// count: as many unblocks as blocks open it again.
  CAUSEWAY_DECL void block(host_index from, host_index to);
  CAUSEWAY_DECL void unblock(host_index from, host_index to);
  /// Blocks every line from `a` to `b`, and back unless `one_way`. heal with the same arguments undoes it.
  CAUSEWAY_DECL void partition(const host_set& a, const host_set& b, bool one_way = false);
  CAUSEWAY_DECL void heal(const host_set& a, const host_set& b, bool one_way = false);
  /// Opens every line, however often it was blocked.
  CAUSEWAY_DECL void heal_all();
  /// What a connection on this line carries at most from now on; `unlimited` ends it.
  CAUSEWAY_DECL void slow_link(host_index from, host_index to, double bytes_per_s);

  /// From now on part `chance` of the messages from `from` to `to` meets with it; 0 ends it. Nothing of it changes what is
  /// on other lines.
  CAUSEWAY_DECL void set_mishap(host_index from, host_index to, mishap what, double chance);
  /// One TCP stream of the connections between two hosts dies. Data on its way is lost; control messages, on a stream of
  /// their own, still arrive until the link ends, a round trip later.
  CAUSEWAY_DECL void lose_stream(host_index a, host_index b);

  // ---- a host's faults -------------------------------------------------------------------------------------------------

  /// A second of the world is `rate` seconds of its clock; 1: as usual.
  CAUSEWAY_DECL void set_clock_rate(host_index host, double rate);
  /// Its clock goes forward at once, as that of a virtual machine that was held up.
  CAUSEWAY_DECL void jump_clock(host_index host, duration forward);
  /// It has descriptors for so many connections: no dial or accept beyond them. Those that stand stay. 0: no limit.
  CAUSEWAY_DECL void limit_connections(host_index host, std::uint64_t most);
  /// Its disk takes so long, from now on. The process waits in its call; if it holds the lock of a fabric, nothing reaches
  /// that host meanwhile and nothing leaves it. For sim::disk::set_waiter.
  CAUSEWAY_DECL void wait_for_disk(host_index host, duration d);
  /// Part `chance` of the messages that arrive there find no memory: the link that they came on ends.
  CAUSEWAY_DECL void set_no_memory(host_index host, double chance);

  // ---- time ------------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void at(time_point when, std::function<void()> what);
  CAUSEWAY_DECL void after(duration delay, std::function<void()> what);

  [[nodiscard]] time_point now() const noexcept { return core_.events.now(); }
  [[nodiscard]] any_clock clock() const { return any_clock{core_.events.clock()}; }

  /// Runs everything up to and including `end`, and sets the clock to it. False: nothing is left to happen after it.
  CAUSEWAY_DECL bool run_until(time_point end);
  bool run_for(duration d) { return run_until(now() + d); }

  /// Runs until nothing is left to happen, or end_run. True: every process has ended; else some wait for ever.
  CAUSEWAY_DECL bool run();

  /// The run under way returns after the present event.
  void end_run() noexcept { ended_ = true; }

  /// Of everything that happened so far: time, kind, host and size of each event.
  [[nodiscard]] std::uint64_t history_hash() const noexcept { return core_.events.history_hash(); }
  [[nodiscard]] std::uint64_t event_count() const noexcept { return core_.events.executed(); }

  /// For tests of the simulator, and for what is built on it.
  [[nodiscard]] detail::core& shared() noexcept { return core_; }

 private:
  struct host_state {
    program main;
    std::unique_ptr<process> running;
    std::uint32_t incarnations = 0;
    bool overdue = false;  ///< became ready while it was stopped
    io::any_storage disk{io::memory_storage{}};
  };

  template <class F>
  static void for_pairs(const host_set& a, const host_set& b, bool one_way, F&& f) {
    for (const host_index from : a) {
      for (const host_index to : b) {
        if (from == to) continue;
        f(from, to);
        if (!one_way) f(to, from);
      }
    }
  }

  CAUSEWAY_DECL void go_on(host_index host, unsigned causes);

  /// Who waits for its disk with the lock held is cut off, but goes on once the disk is done.
  CAUSEWAY_DECL [[nodiscard]] bool may_run(host_index host);

  CAUSEWAY_DECL void hold_up(host_index host, duration d);

  template <class F>
  void change_clock(host_index host, std::uint64_t what, F f) {
    core_.events.record({event_kind::fault, host, what});
    f(core_.net.at(host).clock);
    if (hosts_[host].running) hosts_[host].running->clock_changed();
  }

  /// Processes are started and ended between events, never inside of one.
  CAUSEWAY_DECL void soon(host_index host, std::uint64_t what, std::function<void()> f);

  CAUSEWAY_DECL void start(host_index host);

  CAUSEWAY_DECL void end_process(host_index host, bool killed);

  CAUSEWAY_DECL void step();

  /// Lets every process run that can.
  CAUSEWAY_DECL void run_ready();

  detail::core core_;
  std::deque<host_state> hosts_;
  bool ended_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_WORLD_HPP

// ---- causeway/sim/impl/world.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_SIM_IMPL_WORLD_IPP
#define CAUSEWAY_SIM_IMPL_WORLD_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL world::world(const world_options& options) : core_{options} {}

CAUSEWAY_DECL void world::set_log(world_log log) { core_.log = std::move(log); }

CAUSEWAY_DECL void world::after(duration delay, std::function<void()> what) { at(now() + delay, std::move(what)); }

CAUSEWAY_INLINE world::~world() {
  for (host_index h = 0; h < hosts_.size(); ++h) end_process(h, true);
}

CAUSEWAY_DECL host_index world::add_host(host_options options) {
  const auto host = static_cast<host_index>(hosts_.size());
  if (options.name.empty()) options.name = "host-" + std::to_string(host);
  CAUSEWAY_EXPECT(options.name.find(':') == std::string::npos);
  core_.net.add_host(options);
  hosts_.emplace_back();
  return host;
}

CAUSEWAY_DECL void world::set_region_link(std::uint32_t from, std::uint32_t to, const link_options& options) {
  core_.net.wires().links().set_region(from, to, options);
}

CAUSEWAY_DECL link_options world::link(host_index from, host_index to) {
  return core_.net.wires().links().between(from, to).options;
}

CAUSEWAY_DECL void world::boot(host_index host, program main) {
  hosts_[host].main = std::move(main);
  restart(host);
}

CAUSEWAY_DECL void world::restart(host_index host) {
  soon(host, 1, [this, host] { start(host); });
}

CAUSEWAY_DECL void world::kill(host_index host) {
  soon(host, 2, [this, host] { end_process(host, true); });
}

CAUSEWAY_DECL void world::power_off(host_index host) {
  soon(host, 3, [this, host] {
    core_.net.power_off(host);
    end_process(host, true);
  });
}

CAUSEWAY_DECL void world::ask_to_stop(host_index host) {
  soon(host, 4, [this, host] {
    if (hosts_[host].running) hosts_[host].running->ask_to_stop();
  });
}

CAUSEWAY_DECL void world::stop(host_index host) {
  soon(host, 5, [this, host] { core_.net.wires().freeze(host); });
}

CAUSEWAY_DECL void world::resume(host_index host) {
  soon(host, 6, [this, host] { go_on(host, detail::standstill::stopped); });
}

CAUSEWAY_DECL void world::block(host_index from, host_index to) {
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 7U});
  core_.net.block(from, to);
}

CAUSEWAY_DECL void world::unblock(host_index from, host_index to) {
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 8U});
  core_.net.unblock(from, to);
}

CAUSEWAY_DECL void world::partition(const host_set& a, const host_set& b, bool one_way) {
  for_pairs(a, b, one_way, [this](host_index from, host_index to) { block(from, to); });
}

CAUSEWAY_DECL void world::heal(const host_set& a, const host_set& b, bool one_way) {
  for_pairs(a, b, one_way, [this](host_index from, host_index to) { unblock(from, to); });
}

CAUSEWAY_DECL void world::heal_all() {
  for (host_index from = 0; from < hosts(); ++from) {
    for (host_index to = 0; to < hosts(); ++to) {
      while (core_.net.blocked(from, to)) unblock(from, to);
    }
  }
}

CAUSEWAY_DECL void world::slow_link(host_index from, host_index to, double bytes_per_s) {
  CAUSEWAY_EXPECT(bytes_per_s > 0);
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 9U});
  core_.net.wires().links().slow(from, to, bytes_per_s);
}

CAUSEWAY_DECL void world::set_mishap(host_index from, host_index to, mishap what, double chance) {
  core_.events.record({event_kind::fault, from, std::uint64_t{to} << 4U | 10U});
  core_.net.wires().links().between(from, to).chances[static_cast<std::size_t>(what)] = chance;
}

CAUSEWAY_DECL void world::lose_stream(host_index a, host_index b) {
  core_.events.record({event_kind::fault, a, std::uint64_t{b} << 4U | 11U});
  core_.net.lose_stream(a, b);
}

CAUSEWAY_DECL void world::set_clock_rate(host_index host, double rate) {
  change_clock(host, 12, [rate](host_clock& c) { c.set_rate(rate); });
}

CAUSEWAY_DECL void world::jump_clock(host_index host, duration forward) {
  change_clock(host, 13, [forward](host_clock& c) { c.jump(forward); });
}

CAUSEWAY_DECL void world::limit_connections(host_index host, std::uint64_t most) {
  core_.events.record({event_kind::fault, host, 14});
  core_.net.at(host).most_connections = most;
}

CAUSEWAY_DECL void world::wait_for_disk(host_index host, duration d) {
  detail::machine& m = core_.net.at(host);
  if (m.aside != nullptr) {
    *m.aside += d;
    return;
  }
  process* const caller = core_.running != nullptr && core_.running->host() == host ? core_.running : nullptr;
  if (caller == nullptr) return hold_up(host, d);
  if (m.locks != 0) core_.net.wires().freeze(host, detail::standstill::disk_held);  // until it gives the lock back
  caller->sleep_world(d);
}

CAUSEWAY_DECL void world::set_no_memory(host_index host, double chance) {
  core_.events.record({event_kind::fault, host, 15});
  core_.net.at(host).no_memory = chance;
}

CAUSEWAY_DECL void world::at(time_point when, std::function<void()> what) {
  core_.events.at(when, {event_kind::script, no_host, 0}, std::move(what));
}

CAUSEWAY_DECL bool world::run_until(time_point end) {
  ended_ = false;
  run_ready();
  while (!ended_ && core_.events.next_time() <= end) step();
  if (!ended_) core_.events.advance_to(end);
  return !core_.events.empty();
}

CAUSEWAY_DECL bool world::run() {
  ended_ = false;
  run_ready();
  while (!ended_ && !core_.events.empty()) step();
  for (const host_state& s : hosts_) {
    if (s.running) return false;
  }
  return true;
}

CAUSEWAY_DECL void world::go_on(host_index host, unsigned causes) {
  core_.net.wires().thaw(host, causes);
  host_state& s = hosts_[host];
  if (s.running && may_run(host) && std::exchange(s.overdue, false)) s.running->make_ready();
}

CAUSEWAY_DECL bool world::may_run(host_index host) {
  const detail::machine& m = core_.net.at(host);
  return m.frozen == 0 || (m.frozen == detail::standstill::disk_held && m.locks != 0);
}

CAUSEWAY_DECL void world::hold_up(host_index host, duration d) {
  detail::machine& m = core_.net.at(host);
  m.disk_until = std::max(m.disk_until, now()) + d;
  core_.net.wires().freeze(host, detail::standstill::disk_held);
  core_.events.at(m.disk_until, {event_kind::fault, host, 16}, [this, host] {
    if (core_.net.at(host).disk_until <= now()) go_on(host, detail::standstill::disk_held);
  });
}

CAUSEWAY_DECL void world::soon(host_index host, std::uint64_t what, std::function<void()> f) {
  core_.events.at(now(), {event_kind::fault, host, what}, std::move(f));
}

CAUSEWAY_DECL void world::start(host_index host) {
  host_state& s = hosts_[host];
  CAUSEWAY_EXPECT(s.main != nullptr);
  end_process(host, true);
  core_.net.power_on(host);
  ++core_.net.at(host).boots;
  s.running = std::make_unique<process>(core_, host, ++s.incarnations, s.disk, s.main);
  s.running->make_ready();
}

CAUSEWAY_DECL void world::end_process(host_index host, bool killed) {
  host_state& s = hosts_[host];
  if (!s.running) return;
  core_.net.at(host).backlog.clear();
  if (killed) s.running->kill();
  if (!killed) s.running->let_go(false);
  const std::exception_ptr failure = s.running->failure();
  s.running.reset();
  s.overdue = false;
  core_.net.wires().thaw(host, detail::standstill::stopped | detail::standstill::disk_held);  // a new process is neither
  core_.net.at(host).disk_until = {};
  if (failure && !killed) std::rethrow_exception(failure);
}

CAUSEWAY_DECL void world::step() {
  core_.events.run_next();
  run_ready();
}

CAUSEWAY_DECL void world::run_ready() {
  while (!core_.ready.empty()) {
    process* const next = core_.ready.front();
    core_.ready.erase(core_.ready.begin());
    const host_index host = next->host();
    if (!may_run(host)) {
      hosts_[host].overdue = true;
      next->not_ready();
      continue;
    }
    next->run();
    if (next->finished()) end_process(host, false);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_WORLD_IPP
#endif

// ---- causeway/sim.hpp ----
#ifndef CAUSEWAY_SIM_HPP
#define CAUSEWAY_SIM_HPP

// To run a whole cluster on virtual time, with faults, from a seed.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#endif  // CAUSEWAY_SIM_HPP
