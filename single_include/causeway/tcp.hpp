// SPDX-License-Identifier: Apache-2.0
// Causeway 0.1.0, what causeway/tcp.hpp includes in one. Written by tools/amalgamate.py: change the headers, not this file.

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

// ---- causeway/core/result.hpp ----
#ifndef CAUSEWAY_CORE_RESULT_HPP
#define CAUSEWAY_CORE_RESULT_HPP

// A value or an error. Our own type rather than std::expected, also where that exists, so that the ABI does not depend on
// the language mode, and a union by hand rather than std::variant, which costs a compiler several times as much for each T.
// Nothing in the library throws for a reason that the network, a disk or a peer can cause.

#include <functional>
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

// ---- causeway/net/endpoint.hpp ----
#ifndef CAUSEWAY_NET_ENDPOINT_HPP
#define CAUSEWAY_NET_ENDPOINT_HPP

// A machine and a port, as people write them: "127.0.0.1:5100", "trainer.example.org:5100", "[::1]:5100".

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Where somebody listens. Port 0 asks the system for any free port.
struct endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  /// "host:port"; the host in brackets when it is an IPv6 address.
  CAUSEWAY_DECL [[nodiscard]] std::string text() const;

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// Reads "host:port" or "[v6]:port". errc::invalid_argument says what is wrong with the text.
CAUSEWAY_DECL result<endpoint> parse_endpoint(std::string_view text);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ENDPOINT_HPP

// ---- causeway/net/impl/endpoint.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ENDPOINT_IPP
#define CAUSEWAY_NET_IMPL_ENDPOINT_IPP

#include <charconv>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL std::string endpoint::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

CAUSEWAY_DECL result<endpoint> parse_endpoint(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return fail(errc::invalid_argument, std::string{text}, std::string{why} + "; write an address as host:port");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse("it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refuse("an IPv6 address needs brackets");
  }
  if (host.empty() || host.size() > 255) return refuse("it has no usable host name");
  endpoint parsed{std::string{host}, 0};
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
  if (digits.empty() || failure != std::errc{} || end != digits.data() + digits.size()) {
    return refuse("its port is not a number from 0 to 65535");
  }
  return parsed;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ENDPOINT_IPP
#endif

// ---- causeway/core/hash.hpp ----
#ifndef CAUSEWAY_CORE_HASH_HPP
#define CAUSEWAY_CORE_HASH_HPP

// A fast 64-bit checksum over bytes, the same on every machine. It finds torn files and replicas that differ; it is no
// defence against somebody who wants a collision.

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

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

// ---- causeway/net/codec.hpp ----
#ifndef CAUSEWAY_NET_CODEC_HPP
#define CAUSEWAY_NET_CODEC_HPP

// Reading and writing bytes that cross the trust boundary: fixed-width little-endian integers, and text and blobs behind a
// length. The reader never looks past its input, never believes a length that the input does not back with bytes, and
// remembers its first failure: a decoder reads everything and asks once at the end.

#include <bit>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

template <std::unsigned_integral U>
constexpr U byte_swapped(U value) noexcept {
  U out = 0;
  for (std::size_t i = 0; i < sizeof(U); ++i) {
    out = static_cast<U>(static_cast<U>(out << 7U << 1U) | static_cast<U>(value & 0xFFU));
    value = static_cast<U>(value >> 7U >> 1U);
  }
  return out;
}

template <std::unsigned_integral U>
constexpr U little_endian(U value) noexcept {
  if constexpr (std::endian::native == std::endian::big) return byte_swapped(value);
  return value;
}

/// Writes `value` at `to`, low byte first; gives the place behind it.
template <std::unsigned_integral U>
std::byte* store_little(std::byte* to, U value) noexcept {
  value = little_endian(value);
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

template <std::unsigned_integral U>
U load_little(const std::byte* from) noexcept {
  U value = 0;
  std::memcpy(&value, from, sizeof value);
  return little_endian(value);
}

}  // namespace detail

/// Appends values to a byte vector that it owns.
class byte_writer {
 public:
  template <std::unsigned_integral U>
  byte_writer& put(U value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    detail::store_little(bytes_.data() + at, value);
    return *this;
  }

  /// A blob behind its length as a u32. Precondition: shorter than 4 GiB.
  CAUSEWAY_DECL byte_writer& put_bytes(std::span<const std::byte> blob);

  byte_writer& put_text(std::string_view text) { return put_bytes(std::as_bytes(std::span{text.data(), text.size()})); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> take() && noexcept;

 private:
  std::vector<std::byte> bytes_;
};

/// Reads values from untrusted bytes. After the first failure every read gives a zero or an empty view, and `finish` gives
/// the reason. Views point into the input. Allocates nothing (but for the message of an error).
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> input) noexcept : rest_{input} {}

  template <std::unsigned_integral U>
  U get() noexcept {
    if (!require(sizeof(U))) return 0;
    const U value = detail::load_little<U>(rest_.data());
    rest_ = rest_.subspan(sizeof(U));
    return value;
  }

  /// A blob of at most `limit` bytes behind its u32 length.
  CAUSEWAY_DECL std::span<const std::byte> get_bytes(std::size_t limit) noexcept;

  /// Text of at most `limit` bytes; control characters and other bytes outside printable ASCII become '?', so that what a
  /// stranger sent can be shown on a terminal.
  CAUSEWAY_DECL std::string get_text(std::size_t limit);

  /// What was read cannot be right (a count beyond its limit, an unknown kind): from now on every read fails.
  void refuse() noexcept { set_failed(state::over_limit); }

  [[nodiscard]] bool ok() const noexcept { return state_ == state::good; }
  [[nodiscard]] std::size_t remaining() const noexcept { return rest_.size(); }

  /// Success when every read succeeded and nothing is left; else errc::corrupt with the reason.
  CAUSEWAY_DECL [[nodiscard]] result<void> finish(std::string_view what) const;

 private:
  enum class state : std::uint8_t { good, truncated, over_limit };

  CAUSEWAY_DECL bool require(std::size_t n) noexcept;

  CAUSEWAY_DECL void set_failed(state why) noexcept;

  std::span<const std::byte> rest_;
  state state_ = state::good;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_CODEC_HPP

// ---- causeway/net/impl/codec.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_CODEC_IPP
#define CAUSEWAY_NET_IMPL_CODEC_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL std::vector<std::byte> byte_writer::take() && noexcept { return std::move(bytes_); }

CAUSEWAY_DECL byte_writer& byte_writer::put_bytes(std::span<const std::byte> blob) {
  CAUSEWAY_EXPECT(blob.size() <= UINT32_MAX);
  put(static_cast<std::uint32_t>(blob.size()));
  bytes_.insert(bytes_.end(), blob.begin(), blob.end());
  return *this;
}

CAUSEWAY_DECL std::span<const std::byte> byte_reader::get_bytes(std::size_t limit) noexcept {
  const auto length = get<std::uint32_t>();
  if (length > limit) return set_failed(state::over_limit), std::span<const std::byte>{};
  if (!require(length)) return {};
  const auto view = rest_.first(length);
  rest_ = rest_.subspan(length);
  return view;
}

CAUSEWAY_DECL std::string byte_reader::get_text(std::size_t limit) {
  const auto view = get_bytes(limit);
  std::string text;
  text.reserve(view.size());
  for (const std::byte b : view) {
    const auto c = static_cast<char>(b);
    text.push_back(c >= ' ' && c <= '~' ? c : '?');
  }
  return text;
}

CAUSEWAY_DECL result<void> byte_reader::finish(std::string_view what) const {
  if (state_ == state::over_limit) {
    return fail(errc::too_large, std::string{what}, "a length or kind in it is beyond its limit");
  }
  if (state_ == state::truncated) return fail(errc::corrupt, std::string{what}, "it ends in the middle of a value");
  if (!rest_.empty()) {
    return fail(errc::corrupt, std::string{what}, std::to_string(rest_.size()) + " bytes follow its end");
  }
  return {};
}

CAUSEWAY_DECL bool byte_reader::require(std::size_t n) noexcept {
  if (!ok()) return false;
  if (rest_.size() >= n) return true;
  set_failed(state::truncated);
  return false;
}

CAUSEWAY_DECL void byte_reader::set_failed(state why) noexcept {
  if (ok()) state_ = why;
  rest_ = {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_CODEC_IPP
#endif

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

// ---- causeway/net/transport.hpp ----
#ifndef CAUSEWAY_NET_TRANSPORT_HPP
#define CAUSEWAY_NET_TRANSPORT_HPP

// What policies and collectives need of a network: start a send, start a receive, wait with a deadline. Real sockets, an
// in-process network and the simulator model the same concept, and `any_transport` holds any of them by value, so that the
// very same trainer runs on all three.

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

// ---- causeway/net/frame.hpp ----
#ifndef CAUSEWAY_NET_FRAME_HPP
#define CAUSEWAY_NET_FRAME_HPP

// The wire format: everything on a connection is a frame, and a frame is a header of 80 bytes, a digest of 8 bytes where
// the header announces one, and at most 4 MiB behind it. Encoding and decoding are pure functions. A header that decodes
// has the right magic and version, a valid checksum, a known kind, and lengths that are within their limits and consistent
// with each other. docs/reference/wire_format.md has the table.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

inline constexpr std::uint32_t frame_magic = 0x59575343U;  ///< "CSWY"
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t header_bytes = 80;
inline constexpr std::size_t max_chunk_bytes = std::size_t{4} << 20U;
inline constexpr std::size_t min_chunk_bytes = std::size_t{4} << 10U;
inline constexpr std::size_t max_handshake_bytes = std::size_t{64} << 10U;
inline constexpr std::size_t max_control_bytes = std::size_t{512} << 10U;
inline constexpr std::size_t max_piece_bytes = std::size_t{60} << 10U;  ///< most of one piece of what somebody asks for
inline constexpr std::size_t max_refusal_text = 4096;
inline constexpr std::size_t digest_bytes = sizeof(std::uint64_t);
inline constexpr std::uint64_t max_message_bytes = std::uint64_t{1} << 36U;

/// Gives the bytes of `item` from `offset` on: as many as it likes, at most max_piece_bytes. None where there is nothing:
/// the other side takes that for the end. Called in the event loop of the run: it must not block for long.
using piece_source = std::function<std::vector<std::byte>(std::uint32_t item, std::uint64_t offset)>;

enum class frame_kind : std::uint8_t {
  data = 1,        ///< one chunk of a message
  abort = 2,       ///< the sender gave a message up; `chunk_offset` says how many of its bytes were sent
  heartbeat = 3,   ///< "I am here"; no content
  goodbye = 4,     ///< nothing follows on this stream
  hello = 5,       ///< joiner to host: who I am and what I want
  accepted = 6,    ///< host to joiner: your index; repeated with the number of peers while it waits for the others
  table = 7,       ///< host to joiners: everybody's address
  link = 8,        ///< first frame of a stream between two peers
  link_ok = 9,     ///< answer to `link`
  ready = 10,      ///< joiner to host: all my streams are up
  go = 11,         ///< host to joiners: everybody is ready
  refused = 12,    ///< an errc and a sentence; the connection ends
  welcome = 13,    ///< host to joiners: bytes of the program, before the table
  control = 14,    ///< a control message of a fabric, whole
  meet = 15,       ///< fabric, both sides: who I am
  want = 16,       ///< fabric, higher id to lower: which connection I had last
  take = 17,       ///< fabric, lower id to higher: this connection is our link
  stream = 18,     ///< fabric: first frame of a stream for data, of a link that stands
  stream_ok = 19,  ///< answer to `stream`
  ask = 20,        ///< a stranger to a run, of any id: what are you?
  told = 21,       ///< answer to `ask`: a piece of what the program says to newcomers

  memory_offer = 22,    ///< this stream could move to shared memory; `id.step` says where to fetch it
  memory_taken = 23,    ///< the sender's last frame over TCP: its next one is in shared memory
  memory_declined = 24  ///< answer to `memory_offer`: the stream stays as it is
};

/// The one flag of this version: a digest of the content, `hash_bytes` of it, stands between header and content.
inline constexpr std::uint8_t has_digest = 1;

/// The header of every frame. `sequence` counts the messages of a link; chunks of one message share it and may come over
/// several streams in any order.
struct frame_header {
  frame_kind kind = frame_kind::data;
  std::uint8_t flags = 0;  ///< `has_digest` or 0
  std::uint64_t run_id = 0;
  peer_index sender = 0;
  message_id id = {};
  std::uint64_t sequence = 0;
  std::uint64_t message_length = 0;
  std::uint64_t chunk_offset = 0;
  std::uint32_t chunk_length = 0;  ///< bytes that follow this header

  friend constexpr bool operator==(const frame_header&, const frame_header&) = default;
};

using header_block = std::array<std::byte, header_bytes>;

namespace detail {

constexpr std::size_t checksum_offset = header_bytes - sizeof(std::uint64_t);

CAUSEWAY_DECL std::uint64_t header_checksum(const std::byte* header) noexcept;

}  // namespace detail

/// Writes `h` as 80 bytes at `to`.
CAUSEWAY_DECL void encode_header(const frame_header& h, std::byte* to) noexcept;

CAUSEWAY_DECL header_block encode_header(const frame_header& h) noexcept;

namespace detail {

CAUSEWAY_DECL frame_header read_header_fields(byte_reader& in) noexcept;

/// Frames that are said before a connection carries messages.
constexpr bool is_handshake(frame_kind kind) noexcept {
  return kind >= frame_kind::hello && kind <= frame_kind::told && kind != frame_kind::control;
}

CAUSEWAY_DECL const char* broken_control_rule(const frame_header& h) noexcept;

/// The rules between the fields of a header whose checksum holds. Null when all are kept.
CAUSEWAY_DECL const char* broken_rule(const frame_header& h) noexcept;

}  // namespace detail

/// Reads a header from the first 80 of the given bytes. errc::protocol for bytes that are no frame of ours,
/// errc::version_mismatch for another version, errc::corrupt for a wrong checksum, errc::too_large or errc::protocol for
/// a broken rule. Reads nothing beyond the header.
CAUSEWAY_DECL result<frame_header> decode_header(std::span<const std::byte> bytes);

namespace detail {

/// The body of a `refused` frame.
CAUSEWAY_DECL std::vector<std::byte> encode_refusal(const error& why);

CAUSEWAY_DECL error read_refusal(std::string where, std::span<const std::byte> body);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FRAME_HPP

// ---- causeway/net/impl/frame.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_FRAME_IPP
#define CAUSEWAY_NET_IMPL_FRAME_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::uint64_t header_checksum(const std::byte* header) noexcept {
  return hash_bytes({header, checksum_offset}, frame_magic);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL void encode_header(const frame_header& h, std::byte* to) noexcept {
  std::byte* at = to;
  at = detail::store_little(at, frame_magic);
  at = detail::store_little(at, protocol_version);
  at = detail::store_little(at, static_cast<std::uint8_t>(h.kind));
  at = detail::store_little(at, h.flags);
  at = detail::store_little(at, h.run_id);
  at = detail::store_little(at, h.id.epoch);
  at = detail::store_little(at, h.sender);
  at = detail::store_little(at, h.id.channel);
  at = detail::store_little(at, h.chunk_length);
  at = detail::store_little(at, h.id.step);
  at = detail::store_little(at, h.id.parent);
  at = detail::store_little(at, h.sequence);
  at = detail::store_little(at, h.message_length);
  at = detail::store_little(at, h.chunk_offset);
  detail::store_little(at, detail::header_checksum(to));
}

CAUSEWAY_DECL header_block encode_header(const frame_header& h) noexcept {
  header_block block;
  encode_header(h, block.data());
  return block;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL frame_header read_header_fields(byte_reader& in) noexcept {
  frame_header h;
  h.kind = static_cast<frame_kind>(in.get<std::uint8_t>());
  h.flags = in.get<std::uint8_t>();
  h.run_id = in.get<std::uint64_t>();
  h.id.epoch = in.get<std::uint32_t>();
  h.sender = in.get<std::uint32_t>();
  h.id.channel = in.get<std::uint32_t>();
  h.chunk_length = in.get<std::uint32_t>();
  h.id.step = in.get<std::uint64_t>();
  h.id.parent = in.get<std::uint64_t>();
  h.sequence = in.get<std::uint64_t>();
  h.message_length = in.get<std::uint64_t>();
  h.chunk_offset = in.get<std::uint64_t>();
  return h;
}

CAUSEWAY_DECL const char* broken_control_rule(const frame_header& h) noexcept {
  if (h.flags != has_digest) return "a control message without a digest";
  if (h.chunk_length > max_control_bytes) return "a control message above 512 KiB";
  if (h.chunk_offset != 0 || h.message_length != h.chunk_length) return "a control message in pieces";
  return nullptr;
}

CAUSEWAY_DECL const char* broken_rule(const frame_header& h) noexcept {
  if (h.kind < frame_kind::data || h.kind > frame_kind::memory_declined) return "an unknown kind of frame";
  const bool may_have_digest = h.kind == frame_kind::data || h.kind == frame_kind::control;
  if (h.flags != 0 && (h.flags != has_digest || !may_have_digest)) return "flags that this version does not know";
  if (h.message_length > max_message_bytes) return "a message of more than 64 GiB";
  if (h.chunk_offset > h.message_length) return "a chunk that starts behind the end of its message";
  if (is_handshake(h.kind)) return h.chunk_length > max_handshake_bytes ? "a handshake frame above 64 KiB" : nullptr;
  if (h.kind == frame_kind::control) return broken_control_rule(h);
  if (h.kind != frame_kind::data) return h.chunk_length != 0 ? "content where none belongs" : nullptr;
  if (h.chunk_length > max_chunk_bytes) return "a chunk above 4 MiB";
  if (h.chunk_length > h.message_length - h.chunk_offset) return "a chunk that reaches past the end of its message";
  if (h.chunk_length == 0 && h.message_length != 0) return "an empty chunk";
  return nullptr;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL result<frame_header> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() < header_bytes) return fail(errc::corrupt, "frame", "it is shorter than its header");
  byte_reader in{bytes.first(header_bytes)};
  if (in.get<std::uint32_t>() != frame_magic) {
    return fail(errc::protocol, "frame", "the other side does not speak Causeway's protocol");
  }
  if (const auto version = in.get<std::uint16_t>(); version != protocol_version) {
    return fail(errc::version_mismatch, "frame",
                "the other side speaks protocol version " + std::to_string(version) + ", we speak " +
                    std::to_string(protocol_version) + "; use the same release on all machines");
  }
  const frame_header h = detail::read_header_fields(in);
  if (in.get<std::uint64_t>() != detail::header_checksum(bytes.data())) {
    return fail(errc::corrupt, "frame", "the header fails its checksum");
  }
  if (const char* rule = detail::broken_rule(h)) return fail(errc::protocol, "frame", std::string{"it has "} + rule);
  return h;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::vector<std::byte> encode_refusal(const error& why) {
  byte_writer body;
  body.put(static_cast<std::uint16_t>(why.code)).put_text(std::string_view{why.message}.substr(0, max_refusal_text));
  return std::move(body).take();
}

CAUSEWAY_DECL error read_refusal(std::string where, std::span<const std::byte> body) {
  byte_reader in{body};
  const auto code = static_cast<errc>(in.get<std::uint16_t>());
  std::string text = in.get_text(max_refusal_text);
  if (!in.ok() || to_string(code) == "unknown") return fail(errc::protocol, std::move(where), "its refusal makes no sense");
  return fail(code, std::move(where), std::move(text));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_FRAME_IPP
#endif

// ---- causeway/net/asio_ask.hpp ----
#ifndef CAUSEWAY_NET_ASIO_ASK_HPP
#define CAUSEWAY_NET_ASIO_ASK_HPP

// What somebody can ask at the address of a run before he is a peer of it, and knows more than that address: which run it
// is, and what its program has to say to newcomers, in pieces. One frame asks for one piece, the other side answers with
// it, and this again and again on one connection. A host of fixed peers and a fabric answer alike.

#include <atomic>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct inquiry_options {
  time_point deadline = no_deadline;        ///< for an answer to come; dials again until then
  const std::atomic<bool>* stop = nullptr;  ///< set it to give up (errc::cancelled)
  bool once = false;                        ///< dial once, and end with errc::unreachable if nobody listens
};

/// A connection on which one asks. Blocks the calling thread; not thread-safe.
class inquiry {
 public:
  /// Dials `address` and asks for the first piece of item 0. errc::unreachable or errc::timeout if nobody answers, else
  /// what the other side says against it.
  CAUSEWAY_DECL static result<inquiry> open(const endpoint& address, const inquiry_options& options);

  inquiry(inquiry&&) noexcept;
  inquiry& operator=(inquiry&&) noexcept;
  ~inquiry();

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t run_id() const noexcept;
  /// Item 0, of one piece.
  [[nodiscard]] const std::vector<std::byte>& about() const noexcept { return about_; }

  /// Reads `length` bytes of `item` from `offset` on, in order, and gives them to `sink`. errc::corrupt if there are fewer.
  /// Item 0 has one piece, however long.
  CAUSEWAY_DECL result<void> read(std::uint32_t item, std::uint64_t offset, std::uint64_t length,
                                  const std::function<result<void>(std::span<const std::byte>)>& sink);

 private:
  struct state;  // what handlers point at: stays where it is when the inquiry moves

  CAUSEWAY_DECL inquiry(endpoint address, const inquiry_options& options);

  CAUSEWAY_DECL result<void> connect();

  CAUSEWAY_DECL void ask(std::uint32_t item, std::uint64_t offset);

  CAUSEWAY_DECL result<std::vector<std::byte>> next_answer();

  CAUSEWAY_DECL result<void> run_until(const std::function<bool()>& done, time_point deadline);

  endpoint address_;
  inquiry_options options_;
  std::unique_ptr<state> state_;
  std::vector<std::byte> about_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_ASK_HPP

// ---- causeway/net/descriptors.hpp ----
#ifndef CAUSEWAY_NET_DESCRIPTORS_HPP
#define CAUSEWAY_NET_DESCRIPTORS_HPP

// File descriptors. Each connection takes one, the disk needs some, and a process that has none left can neither accept a
// peer nor save a checkpoint. So the limit of the process is raised as far as it may be, and connections leave a reserve
// for everything else. The kernel gives out the lowest free number: the number of a new descriptor tells how many are open.

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline constexpr std::size_t most_descriptors = 65536;    ///< nobody needs more, and some programs walk over all of them
inline constexpr std::size_t reserved_descriptors = 64;   ///< for files; a quarter of the limit where that is less
inline constexpr std::size_t descriptors_of_a_link = 64;  ///< a new link may take this share (1/64) of what is left

/// How many this process may have open now.
CAUSEWAY_DECL std::size_t descriptor_limit() noexcept;

/// Raises the limit to what the process may ask for, at most `most_descriptors`. Never lowers it. The limit after that.
CAUSEWAY_DECL std::size_t raise_descriptor_limit() noexcept;

/// How many connections can still be made when `newest` is the descriptor given out last.
CAUSEWAY_DECL std::size_t spare_descriptors(std::size_t newest, std::size_t limit) noexcept;
CAUSEWAY_DECL std::size_t spare_descriptors(int newest) noexcept;

/// How many connections for data a new link should have, of `wanted`: fewer when many links share few descriptors.
CAUSEWAY_DECL std::size_t affordable_streams(std::size_t wanted, std::size_t spare) noexcept;

CAUSEWAY_DECL error no_descriptors(std::string where);

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_DESCRIPTORS_HPP

// ---- causeway/net/impl/descriptors.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_DESCRIPTORS_IPP
#define CAUSEWAY_NET_IMPL_DESCRIPTORS_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::size_t descriptor_limit() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX));
#endif
  return most_descriptors;
}

CAUSEWAY_DECL std::size_t raise_descriptor_limit() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, most_descriptors);
    if (limit.rlim_cur < wanted) {
      limit.rlim_cur = wanted;
      (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
  }
#endif
  return descriptor_limit();
}

CAUSEWAY_DECL std::size_t spare_descriptors(std::size_t newest, std::size_t limit) noexcept {
  const std::size_t reserve = std::min(reserved_descriptors, limit / 4);
  const std::size_t usable = limit - reserve;
  return newest + 1 < usable ? usable - newest - 1 : 0;
}

CAUSEWAY_DECL std::size_t spare_descriptors(int newest) noexcept {
  return newest < 0 ? 0 : spare_descriptors(static_cast<std::size_t>(newest), descriptor_limit());
}

CAUSEWAY_DECL std::size_t affordable_streams(std::size_t wanted, std::size_t spare) noexcept {
  return std::clamp<std::size_t>(spare / descriptors_of_a_link, 1, std::max<std::size_t>(wanted, 1));
}

CAUSEWAY_DECL error no_descriptors(std::string where) {
  return fail(errc::io_failed, std::move(where),
              "this process may not open more files and connections; raise the limit with ulimit -n");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_DESCRIPTORS_IPP
#endif

// ---- causeway/net/asio_library.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_LIBRARY_HPP
#define CAUSEWAY_NET_ASIO_LIBRARY_HPP

// The door to standalone asio, and the socket options that our connections use. Debian's asio 1.22.1 is the oldest version
// we build with.

#if !defined(ASIO_STANDALONE)
#define ASIO_STANDALONE
#endif

#include <asio/buffer.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/host_name.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <system_error>

#if defined(__linux__)
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// asio's names, with the executor of an io_context instead of any: what asio compiles for each kind of handler is a third
/// of what a program with our network compiles.
struct tcp {
  using executor = asio::io_context::executor_type;
  using socket = asio::basic_stream_socket<asio::ip::tcp, executor>;
  using acceptor = asio::basic_socket_acceptor<asio::ip::tcp, executor>;
  using resolver = asio::ip::basic_resolver<asio::ip::tcp, executor>;
  using endpoint = asio::ip::tcp::endpoint;
  using no_delay = asio::ip::tcp::no_delay;
};

using timer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, tcp::executor>;

/// Every handler is of one of these types, so that asio's operations are compiled once. What captures no more than two
/// pointers needs no memory.
using completion = std::function<void(std::error_code)>;
using transfer_completion = std::function<void(std::error_code, std::size_t)>;

/// Asks the kernel for BBR, whose rate does not collapse on a lossy long path as CUBIC's does. False where it refuses.
CAUSEWAY_DECL bool ask_for_bbr([[maybe_unused]] tcp::socket& socket) noexcept;

/// Whether the kernel would give it: asked with a socket of its own.
CAUSEWAY_DECL bool kernel_allows_bbr(asio::io_context& io);

/// Whether both ends are on this machine. False for a socket that is not connected.
CAUSEWAY_DECL bool is_loopback(const tcp::socket& socket);

/// Buffers for a link to this machine: 4 MiB save wake-ups (an all-reduce of 64 MiB takes 8 % less time). The kernel clamps
/// larger wishes silently, and a clamped buffer is worse than one it tunes itself; so only where it allows that much.
CAUSEWAY_DECL std::size_t loopback_buffer();

/// Prepares a connected socket for streaming: no delay, keep-alive, non-blocking, BBR off the machine if wanted, and
/// buffers of `buffer` bytes (0: loopback_buffer on this machine, else what the kernel tunes). Refusals are ignored: the
/// connection works without.
CAUSEWAY_DECL void tune(tcp::socket& socket, std::size_t buffer, bool bbr);

inline endpoint to_endpoint(const tcp::endpoint& e) { return {e.address().to_string(), e.port()}; }

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_LIBRARY_HPP
#endif

// ---- causeway/net/asio_conversation.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_CONVERSATION_HPP
#define CAUSEWAY_NET_ASIO_CONVERSATION_HPP

// A socket on which control frames are exchanged before it becomes a stream of a link: reads exactly one frame when asked,
// never a byte more, with a limit and a deadline. And the one that dials until somebody answers.

#include <deque>
#include <set>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// What somebody is told who asks for another run than the one that is served. It does not say which that is.
CAUSEWAY_DECL error wrong_run();

/// Held by shared_ptr; its handlers keep it alive. After `stop` or `release` it calls nobody back.
class conversation : public std::enable_shared_from_this<conversation> {
 public:
  using frame_handler = std::function<void(const frame_header&, std::span<const std::byte>)>;
  using end_handler = std::function<void(const error&)>;

  CAUSEWAY_DECL explicit conversation(tcp::socket socket);

  CAUSEWAY_DECL void on_end(end_handler handler);

  /// Reads one frame of at most `limit` bytes behind its header, within `patience`; then calls `handler`.
  CAUSEWAY_DECL void next(std::size_t limit, std::chrono::nanoseconds patience, frame_handler handler);

  /// Sends a frame; `then` is called once the kernel has all of it.
  CAUSEWAY_DECL void say(frame_kind kind, std::uint64_t run_id, peer_index sender, std::span<const std::byte> body,
                         std::function<void()> then = {});

  /// Says why not, and ends when that is out. Names no run: whoever knows a run's id may join it, so a stranger must not
  /// learn it from its refusal.
  CAUSEWAY_DECL void refuse(const error& why);

  CAUSEWAY_DECL void stop();

  /// Hands the socket over. Precondition: no read is under way, everything said is out.
  CAUSEWAY_DECL tcp::socket release();

  [[nodiscard]] bool over() const noexcept { return over_; }
  [[nodiscard]] int descriptor() { return static_cast<int>(socket_.native_handle()); }
  [[nodiscard]] const tcp::socket& socket() const noexcept { return socket_; }
  CAUSEWAY_DECL [[nodiscard]] std::string remote() const;

 private:
  struct outgoing {
    std::vector<std::byte> bytes;
    std::function<void()> then;
  };

  CAUSEWAY_DECL void arm_timer(std::chrono::nanoseconds patience);

  CAUSEWAY_DECL void read_body(std::size_t limit);

  CAUSEWAY_DECL void deliver(const frame_header& h);

  CAUSEWAY_DECL void write_front();

  /// What we say is not heard any more. If we listen, what the other side said last is still to come: why it left, perhaps.
  CAUSEWAY_DECL void fall_silent(const std::error_code& failure);

  CAUSEWAY_DECL void end_with(const std::error_code& failure);

  CAUSEWAY_DECL void end(const error& why);

  tcp::socket socket_;
  timer timer_;
  header_block header_;
  std::vector<std::byte> body_;
  std::deque<outgoing> queue_;
  frame_handler framed_;
  end_handler ended_;
  std::uint64_t round_ = 0;  // tells a timer that its frame came after all
  bool last_words_ = false;  // ends once everything said is out
  bool over_ = false;
};

using conversation_ptr = std::shared_ptr<conversation>;

/// Dials an address again and again until somebody answers or it is stopped; or once, if it is told whom to tell that
/// nobody answered.
class dialer : public std::enable_shared_from_this<dialer> {
 public:
  using connect_handler = std::function<void(conversation_ptr)>;
  using failure_handler = std::function<void(const error&)>;

  CAUSEWAY_DECL dialer(asio::io_context& io, endpoint target, connect_handler connected, failure_handler failed = {});

  CAUSEWAY_DECL void dial();

  CAUSEWAY_DECL void stop();

  [[nodiscard]] const endpoint& target() const noexcept { return target_; }
  [[nodiscard]] bool busy() const noexcept { return static_cast<bool>(connected_); }
  /// Why the last attempt failed; empty before that.
  [[nodiscard]] const std::string& last_failure() const noexcept { return last_failure_; }

 private:
  static constexpr std::chrono::milliseconds first_pause{20};
  static constexpr std::chrono::milliseconds longest_pause{500};

  CAUSEWAY_DECL void connect(std::vector<tcp::endpoint> candidates);

  CAUSEWAY_DECL void retry(const std::error_code& failure);

 public:
  /// Pauses, longer each time, and dials.
  CAUSEWAY_DECL void dial_later();

 private:
  tcp::resolver resolver_;
  tcp::socket socket_;
  timer timer_;
  endpoint target_;
  connect_handler connected_;
  failure_handler failed_;
  std::vector<tcp::endpoint> candidates_;
  std::chrono::milliseconds pause_ = first_pause;
  std::string last_failure_;
};

// Answers whoever asks at the address of a run what run this is (net/asio_ask.hpp): for a host of fixed peers and for a
// fabric.

/// Answers strangers. Not thread-safe: all of it happens in one event loop.
class informant {
 public:
  CAUSEWAY_DECL explicit informant(piece_source pieces = {});
  ~informant() { stop(); }
  informant(const informant&) = delete;
  informant& operator=(const informant&) = delete;

  /// Takes a connection over whose first frame asked with `body`.
  CAUSEWAY_DECL void serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body);

  CAUSEWAY_DECL void stop();

 private:
  static constexpr std::size_t most_talks = 32;
  static constexpr std::size_t question_bytes = 64;
  static constexpr std::chrono::seconds patience{30};

  CAUSEWAY_DECL void answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body);

  CAUSEWAY_DECL void hear(const conversation_ptr& who, std::uint64_t run_id);

  piece_source pieces_;
  std::set<conversation_ptr> talks_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_CONVERSATION_HPP
#endif

// ---- causeway/net/impl/asio_ask.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_ASK_IPP
#define CAUSEWAY_NET_IMPL_ASIO_ASK_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct inquiry::state {
  asio::io_context io;
  std::shared_ptr<detail::dialer> dialling;
  detail::conversation_ptr who;
  std::uint64_t run_id = 0;
  std::vector<std::byte> piece;
  bool answered = false;
  std::optional<error> failure;

  state() = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    if (dialling) dialling->stop();
    if (who) who->stop();
    io.restart();
    io.poll();
  }
};

CAUSEWAY_DECL inquiry::inquiry(endpoint address, const inquiry_options& options)
    : address_{std::move(address)}, options_{options}, state_{std::make_unique<state>()} {}

CAUSEWAY_INLINE inquiry::inquiry(inquiry&&) noexcept = default;
CAUSEWAY_INLINE inquiry& inquiry::operator=(inquiry&&) noexcept = default;
CAUSEWAY_INLINE inquiry::~inquiry() = default;

CAUSEWAY_DECL std::uint64_t inquiry::run_id() const noexcept { return state_->run_id; }

CAUSEWAY_DECL result<inquiry> inquiry::open(const endpoint& address, const inquiry_options& options) {
  inquiry made{address, options};
  CAUSEWAY_TRY(made.connect());
  CAUSEWAY_TRY(made.read(0, 0, max_piece_bytes, [&](std::span<const std::byte> piece) -> result<void> {
    made.about_.assign(piece.begin(), piece.end());
    return {};
  }));
  return made;
}

CAUSEWAY_DECL result<void> inquiry::read(std::uint32_t item, std::uint64_t offset, std::uint64_t length,
                                         const std::function<result<void>(std::span<const std::byte>)>& sink) {
  constexpr std::uint64_t ahead = 16;  // pieces asked for before the first is there
  const std::uint64_t end = offset + length;
  std::uint64_t asked = offset;
  while (offset < end) {
    // Pieces ahead of the answer, as long as the other side sends whole ones.
    for (; asked < end && asked < offset + ahead * max_piece_bytes; asked += max_piece_bytes) ask(item, asked);
    CAUSEWAY_ASSIGN(const std::vector<std::byte> piece, next_answer());
    const std::uint64_t wanted = item == 0 ? piece.size() : std::min<std::uint64_t>(max_piece_bytes, end - offset);
    if (piece.empty() || piece.size() != wanted) {
      return fail(errc::corrupt, address_.text(),
                  "it sent " + std::to_string(piece.size()) + " bytes of a piece of " + std::to_string(wanted));
    }
    CAUSEWAY_TRY(sink(piece));
    if (item == 0) return {};
    offset += piece.size();
  }
  return {};
}

CAUSEWAY_DECL result<void> inquiry::run_until(const std::function<bool()>& done, time_point deadline) {
  state& s = *state_;
  const steady_clock clock;
  while (!done() && !s.failure) {
    if (options_.stop != nullptr && options_.stop->load()) {
      return fail(errc::cancelled, address_.text(), "stopped on request");
    }
    if (clock.now() >= deadline) return fail(errc::timeout, address_.text(), "nobody answered in time");
    s.io.restart();
    s.io.run_one_for(std::chrono::milliseconds{50});
  }
  if (!s.failure) return {};
  return fail(s.failure->code, address_.text(), s.failure->message);
}

CAUSEWAY_DECL result<void> inquiry::connect() {
  state& s = *state_;
  const auto connected = [&s](const detail::conversation_ptr& who) {
    s.who = who;
    who->on_end([&s](const error& why) { s.failure = why; });
  };
  detail::dialer::failure_handler failed;
  if (options_.once) failed = [&s](const error& why) { s.failure = why; };
  s.dialling = std::make_shared<detail::dialer>(s.io, address_, connected, failed);
  s.dialling->dial();
  const auto outcome = run_until([&s] { return s.who != nullptr; }, options_.deadline);
  if (outcome || outcome.error().code != errc::timeout) return outcome;
  const std::string why = s.dialling->last_failure();
  return fail(errc::unreachable, address_.text(),
              "nobody answers there" + (why.empty() ? std::string{} : ": " + why) +
                  "; give the address of a peer that is in the run now");
}

CAUSEWAY_DECL void inquiry::ask(std::uint32_t item, std::uint64_t offset) {
  byte_writer body;
  body.put(item).put(offset);
  state_->who->say(frame_kind::ask, 0, 0, body.bytes());
}

CAUSEWAY_DECL result<std::vector<std::byte>> inquiry::next_answer() {
  constexpr std::chrono::seconds patience{30};
  state& s = *state_;
  s.answered = false;
  s.who->next(max_handshake_bytes, patience, [this, &s](const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::refused) {
      s.failure = detail::read_refusal(address_.text(), body);
    } else if (h.kind != frame_kind::told || h.run_id == 0) {
      s.failure = fail(errc::protocol, address_.text(), "it answered out of turn");
    } else {
      s.run_id = h.run_id;
      s.piece.assign(body.begin(), body.end());
      s.answered = true;
    }
  });
  CAUSEWAY_TRY(run_until([&s] { return s.answered; }, no_deadline));
  return std::move(s.piece);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_ASK_IPP
#endif

// ---- causeway/net/impl/asio_library.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_LIBRARY_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LIBRARY_IPP

#include <fstream>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL bool ask_for_bbr([[maybe_unused]] tcp::socket& socket) noexcept {
#if defined(__linux__) && defined(TCP_CONGESTION)
  constexpr char name[] = "bbr";
  return ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1) == 0;
#else
  return false;
#endif
}

CAUSEWAY_DECL bool kernel_allows_bbr(asio::io_context& io) {
  tcp::socket probe{io};
  std::error_code failure;
  probe.open(asio::ip::tcp::v4(), failure);
  return !failure && ask_for_bbr(probe);
}

CAUSEWAY_DECL bool is_loopback(const tcp::socket& socket) {
  std::error_code failure;
  const auto remote = socket.remote_endpoint(failure);
  return !failure && remote.address().is_loopback();
}

CAUSEWAY_DECL std::size_t loopback_buffer() {
  constexpr std::size_t wanted = std::size_t{4} << 20U;
  for (const char* limit : {"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"}) {
    std::size_t allowed = 0;
    if (!(std::ifstream{limit} >> allowed) || allowed < wanted) return 0;
  }
  return wanted;
}

CAUSEWAY_DECL void tune(tcp::socket& socket, std::size_t buffer, bool bbr) {
  if (buffer == 0 && is_loopback(socket)) buffer = loopback_buffer();
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay{true}, ignored);
  socket.set_option(asio::socket_base::keep_alive{true}, ignored);
  if (buffer != 0) {
    socket.set_option(asio::socket_base::send_buffer_size{static_cast<int>(buffer)}, ignored);
    socket.set_option(asio::socket_base::receive_buffer_size{static_cast<int>(buffer)}, ignored);
  }
  if (bbr && !is_loopback(socket)) ask_for_bbr(socket);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_LIBRARY_IPP
#endif

// ---- causeway/net/impl/asio_conversation.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_CONVERSATION_IPP
#define CAUSEWAY_NET_IMPL_ASIO_CONVERSATION_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL error wrong_run() {
  return fail(
      errc::wrong_run, "",
      "this address serves another run; check the name and the seed of the run that you want to join, or its address");
}

CAUSEWAY_DECL conversation::conversation(tcp::socket socket) : socket_{std::move(socket)}, timer_{socket_.get_executor()} {}

CAUSEWAY_DECL void conversation::on_end(end_handler handler) { ended_ = std::move(handler); }

CAUSEWAY_DECL void conversation::next(std::size_t limit, std::chrono::nanoseconds patience, frame_handler handler) {
  framed_ = std::move(handler);
  arm_timer(patience);
  asio::async_read(socket_, asio::buffer(header_),
                   transfer_completion{[self = shared_from_this(), limit](std::error_code failure, std::size_t) {
                     if (failure) return self->end_with(failure);
                     self->read_body(limit);
                   }});
}

CAUSEWAY_DECL void conversation::say(frame_kind kind, std::uint64_t run_id, peer_index sender,
                                     std::span<const std::byte> body, std::function<void()> then) {
  CAUSEWAY_EXPECT(body.size() <= max_handshake_bytes);
  frame_header h;
  h.kind = kind;
  h.run_id = run_id;
  h.sender = sender;
  h.chunk_length = static_cast<std::uint32_t>(body.size());
  outgoing frame{std::vector<std::byte>(header_bytes + body.size()), std::move(then)};
  encode_header(h, frame.bytes.data());
  std::copy(body.begin(), body.end(), frame.bytes.begin() + header_bytes);
  queue_.push_back(std::move(frame));
  if (queue_.size() == 1) write_front();
}

CAUSEWAY_DECL void conversation::refuse(const error& why) {
  framed_ = {};
  ended_ = {};
  last_words_ = true;
  say(frame_kind::refused, 0, 0, encode_refusal(why));
}

CAUSEWAY_DECL void conversation::stop() {
  if (over_) return;
  over_ = true;
  std::error_code ignored;
  timer_.cancel();
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
  framed_ = {};
  ended_ = {};
  for (outgoing& frame : queue_) frame.then = {};  // the bytes of the first may still be in use
}

CAUSEWAY_DECL tcp::socket conversation::release() {
  over_ = true;
  timer_.cancel();
  framed_ = {};
  ended_ = {};
  return std::move(socket_);
}

CAUSEWAY_DECL std::string conversation::remote() const {
  std::error_code failure;
  const auto e = socket_.remote_endpoint(failure);
  return failure ? std::string{"a closed connection"} : to_endpoint(e).text();
}

CAUSEWAY_DECL void conversation::arm_timer(std::chrono::nanoseconds patience) {
  timer_.cancel();
  if (patience == std::chrono::nanoseconds::max()) return;
  timer_.expires_after(patience);
  timer_.async_wait(completion{[self = shared_from_this(), round = ++round_](std::error_code failure) {
    if (!failure && round == self->round_) self->end(fail(errc::timeout, self->remote(), "it said nothing in time"));
  }});
}

CAUSEWAY_DECL void conversation::read_body(std::size_t limit) {
  auto h = decode_header(header_);
  if (!h) return end(std::move(h).error());
  if (!is_handshake(h->kind) && h->kind != frame_kind::heartbeat)
    return end(fail(errc::protocol, remote(), "it sent data before the handshake was over"));
  if (h->chunk_length > limit) return end(fail(errc::too_large, remote(), "its handshake is longer than allowed"));
  body_.resize(h->chunk_length);
  asio::async_read(socket_, asio::buffer(body_),
                   transfer_completion{[self = shared_from_this(), header = *h](std::error_code failure, std::size_t) {
                     if (failure) return self->end_with(failure);
                     self->deliver(header);
                   }});
}

CAUSEWAY_DECL void conversation::deliver(const frame_header& h) {
  ++round_;
  timer_.cancel();
  if (over_ || !framed_) return;
  const auto handler = std::exchange(framed_, {});
  const std::vector<std::byte> body = std::move(body_);
  handler(h, body);
}

CAUSEWAY_DECL void conversation::write_front() {
  asio::async_write(socket_, asio::buffer(queue_.front().bytes),
                    transfer_completion{[self = shared_from_this()](std::error_code failure, std::size_t) {
                      if (failure) return self->fall_silent(failure);
                      const auto then = std::move(self->queue_.front().then);
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) self->write_front();
                      if (then && !self->over_) then();
                      if (self->queue_.empty() && self->last_words_) self->stop();
                    }});
}

CAUSEWAY_DECL void conversation::fall_silent(const std::error_code& failure) {
  if (!framed_) return end_with(failure);
  queue_.clear();
}

CAUSEWAY_DECL void conversation::end_with(const std::error_code& failure) {
  const std::string why = failure == asio::error::eof ? "it closed the connection" : failure.message();
  end(fail(errc::peer_lost, over_ ? std::string{} : remote(), why));
}

CAUSEWAY_DECL void conversation::end(const error& why) {
  if (over_) return;
  const auto handler = std::exchange(ended_, {});
  stop();
  if (handler) handler(why);
}

CAUSEWAY_DECL dialer::dialer(asio::io_context& io, endpoint target, connect_handler connected, failure_handler failed)
    : resolver_{io},
      socket_{io},
      timer_{io},
      target_{std::move(target)},
      connected_{std::move(connected)},
      failed_{std::move(failed)} {}

CAUSEWAY_DECL void dialer::dial() {
  std::error_code failure;
  const auto address = asio::ip::make_address(target_.host, failure);
  if (!failure) {
    const tcp::endpoint only{address, target_.port};
    return connect(std::vector<tcp::endpoint>{only});
  }
  resolver_.async_resolve(target_.host, std::to_string(target_.port),
                          [self = shared_from_this()](std::error_code unknown, const tcp::resolver::results_type& found) {
                            if (unknown) return self->retry(unknown);
                            self->connect({found.begin(), found.end()});
                          });
}

CAUSEWAY_DECL void dialer::stop() {
  connected_ = {};
  failed_ = {};
  resolver_.cancel();
  timer_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
}

CAUSEWAY_DECL void dialer::connect(std::vector<tcp::endpoint> candidates) {
  if (!connected_) return;
  candidates_ = std::move(candidates);
  asio::async_connect(socket_, candidates_, [self = shared_from_this()](std::error_code failure, const tcp::endpoint&) {
    if (!self->connected_) return;
    if (failure) return self->retry(failure);
    const auto call = std::exchange(self->connected_, {});
    self->failed_ = {};
    call(std::make_shared<conversation>(std::move(self->socket_)));
  });
}

CAUSEWAY_DECL void dialer::retry(const std::error_code& failure) {
  if (!connected_) return;
  last_failure_ = failure == asio::error::no_descriptors ? no_descriptors({}).message : failure.message();
  std::error_code ignored;
  socket_.close(ignored);
  if (!failed_) return dial_later();
  connected_ = {};
  const auto call = std::exchange(failed_, {});
  call(fail(errc::unreachable, target_.text(), last_failure_));
}

CAUSEWAY_DECL void dialer::dial_later() {
  timer_.expires_after(pause_);
  pause_ = std::min(pause_ * 2, longest_pause);
  timer_.async_wait(completion{[self = shared_from_this()](std::error_code stopped) {
    if (!stopped && self->connected_) self->dial();
  }});
}

CAUSEWAY_DECL informant::informant(piece_source pieces) : pieces_{std::move(pieces)} {}

CAUSEWAY_DECL void informant::serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
  if (!pieces_) return who->refuse(fail(errc::unsupported, "", "this run tells newcomers nothing"));
  if (talks_.size() >= most_talks) {
    return who->refuse(fail(errc::too_large, "", "too many newcomers ask at once; try later"));
  }
  talks_.insert(who);
  who->on_end([this, who](const error&) { talks_.erase(who); });
  answer(who, run_id, body);
}

CAUSEWAY_DECL void informant::stop() {
  for (const auto& who : std::exchange(talks_, {})) who->stop();
}

CAUSEWAY_DECL void informant::answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
  byte_reader in{body};
  const auto item = in.get<std::uint32_t>();
  const auto offset = in.get<std::uint64_t>();
  if (const auto whole = in.finish("question"); !whole) {
    talks_.erase(who);
    return who->refuse(whole.error());
  }
  const std::vector<std::byte> piece = pieces_(item, offset);
  // The next question is read when this answer is out: a stranger costs one piece of memory, however much it asks for.
  who->say(frame_kind::told, run_id, 0, std::span{piece}.first(std::min(piece.size(), max_piece_bytes)),
           [this, who, run_id] { hear(who, run_id); });
}

CAUSEWAY_DECL void informant::hear(const conversation_ptr& who, std::uint64_t run_id) {
  who->next(question_bytes, patience, [this, who, run_id](const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::ask) return answer(who, run_id, body);
    talks_.erase(who);
    who->refuse(fail(errc::protocol, "", "it stopped asking"));
  });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_CONVERSATION_IPP
#endif

// ---- causeway/net/transport_options.hpp ----
#ifndef CAUSEWAY_NET_TRANSPORT_OPTIONS_HPP
#define CAUSEWAY_NET_TRANSPORT_OPTIONS_HPP

// What transports and fabrics over TCP are told about their connections.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct transport_options {
  std::size_t chunk_bytes = 0;                            ///< 0: 1 MiB on one stream, 256 KiB on several
  std::size_t unexpected_bytes = std::size_t{64} << 20U;  ///< kept per peer before reading from it pauses
  std::size_t unexpected_total = std::size_t{1} << 30U;   ///< the same for all peers together
  std::size_t socket_buffer = 0;                          ///< 0: the kernel tunes it
  bool bbr = true;                                        ///< ask the kernel for BBR; false keeps its default
  bool shared_memory = true;  ///< with peers on this machine, for large messages: docs/design/shared_memory.md
  duration heartbeat = std::chrono::seconds{1};    ///< how often an idle link says that it lives
  duration silence = std::chrono::seconds{10};     ///< a peer silent for longer is lost (or longer, see deadline.hpp)
  duration close_grace = std::chrono::seconds{2};  ///< how long `close` waits for the others' goodbye
  bool digest = false;  ///< send a checksum of the content with every chunk; the other side verifies it in any case
  std::size_t control_backlog = std::size_t{256} << 20U;  ///< unsent control messages at which a peer is given up
  std::size_t control_total = std::size_t{1} << 30U;      ///< of all peers; above it one with a sixteenth is given up
  log_sink log;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_TRANSPORT_OPTIONS_HPP

// ---- causeway/net/asio_listener.hpp ----
#ifndef CAUSEWAY_NET_ASIO_LISTENER_HPP
#define CAUSEWAY_NET_ASIO_LISTENER_HPP

// What host, join and connect_static are told, and the port that a peer listens on.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// How many of the peers are in.
struct rendezvous_progress {
  std::uint32_t joined = 0;  ///< peers that are in, ourselves included
  std::uint32_t wanted = 0;  ///< 0 while a joiner has not reached the host
  bool connecting = false;   ///< everybody is in; the links are being made
};

struct rendezvous_options {
  std::uint64_t run_id = 0;                  ///< which run; a joiner may leave it 0 to take the one that is served
  std::uint64_t model_hash = 0;              ///< hash of what must be equal on all peers; 0 leaves it unchecked
  std::optional<peer_index> wanted_index{};  ///< the index we had before; the host's default is 0
  endpoint listen{};                 ///< where others reach us; anything but loopback is unencrypted and warned about
  std::string announce{};            ///< host name under which others reach us; empty: the address that the host sees
  std::uint16_t announce_port = 0;   ///< port under which others reach us; 0: the one that we listen at
  std::size_t streams_per_link = 0;  ///< 0: one on loopback or where the kernel has BBR, else 16
  time_point deadline = no_deadline;
  duration link_patience = std::chrono::seconds{60};  ///< how long no link may be made before those without are given up
  const std::atomic<bool>* stop = nullptr;            ///< set it to give up (errc::cancelled)
  std::function<void(const rendezvous_progress&)> progress{};
  transport_options transport{};
  piece_source pieces{};  ///< what a host tells those who ask what run this is; none: they are refused
};

namespace detail {
struct bound_port;
}

/// A port that we listen on. `open_listener` makes it, so that its address is known before anybody waits.
class listener {
 public:
  /// The address as bound: give it to the others.
  [[nodiscard]] const endpoint& address() const noexcept { return address_; }

  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;
  ~listener();

  // For the functions of this folder.
  CAUSEWAY_DECL listener(std::unique_ptr<detail::bound_port> bound, endpoint address);
  std::unique_ptr<detail::bound_port> port;

 private:
  endpoint address_;
};

namespace detail {

/// Where others dial us.
CAUSEWAY_DECL std::uint16_t announced_port(const rendezvous_options& options, const endpoint& own) noexcept;

CAUSEWAY_DECL error bind_error(const endpoint& where, const std::error_code& failure);

}  // namespace detail

/// Listens at `where` (port 0: any free port). errc::address_in_use when another program has the port.
CAUSEWAY_DECL result<listener> open_listener(const endpoint& where, const log_sink& log = {});

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_LISTENER_HPP

// ---- causeway/net/asio_accept.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_ACCEPT_HPP
#define CAUSEWAY_NET_ASIO_ACCEPT_HPP

// Accepts connections for as long as it lives. What goes wrong with one of them (no descriptors, no memory, a client that
// is gone again) never ends the accepting, and is not asked for again at once: that would take a whole core.

#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

// The socket behind a net::listener. Headers that programs include name it only; this one has the library in it.

/// A port that we listen on, and the loop that its connections will live in. Who takes it over takes both.
struct bound_port {
  std::unique_ptr<asio::io_context> io;
  std::unique_ptr<tcp::acceptor> acceptor;
};

/// Held by shared_ptr; its handlers keep it alive. After `stop` it calls nobody back. Used from the event loop only.
class accepting : public std::enable_shared_from_this<accepting> {
 public:
  using taken_handler = std::function<void(tcp::socket)>;
  using failed_handler = std::function<void(const std::string&)>;

  CAUSEWAY_DECL accepting(asio::io_context& io, std::unique_ptr<tcp::acceptor> acceptor, taken_handler taken,
                          failed_handler failed);

  CAUSEWAY_DECL void start();

  CAUSEWAY_DECL void stop();

 private:
  static constexpr std::chrono::milliseconds pause{100};

  CAUSEWAY_DECL void fail(const std::error_code& failure);

  std::unique_ptr<tcp::acceptor> acceptor_;
  timer pause_;
  taken_handler taken_;
  failed_handler failed_;
  bool over_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_ACCEPT_HPP
#endif

// ---- causeway/net/impl/asio_listener.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_LISTENER_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LISTENER_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::uint16_t announced_port(const rendezvous_options& options, const endpoint& own) noexcept {
  return options.announce_port != 0 ? options.announce_port : own.port;
}

CAUSEWAY_DECL error bind_error(const endpoint& where, const std::error_code& failure) {
  if (failure == asio::error::address_in_use) {
    return fail(errc::address_in_use, where.text(),
                "port " + std::to_string(where.port) +
                    " is taken by another program; choose another with --listen, or port 0 for any free one");
  }
  return fail(errc::io_failed, where.text(), "cannot listen there: " + failure.message());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL listener::listener(std::unique_ptr<detail::bound_port> bound, endpoint address)
    : port{std::move(bound)}, address_{std::move(address)} {}

CAUSEWAY_INLINE listener::listener(listener&&) noexcept = default;
CAUSEWAY_INLINE listener& listener::operator=(listener&&) noexcept = default;
CAUSEWAY_INLINE listener::~listener() = default;

CAUSEWAY_DECL result<listener> open_listener(const endpoint& where, const log_sink& log) {
  auto io = std::make_unique<asio::io_context>();
  std::error_code failure;
  detail::tcp::resolver resolver{*io};
  const auto found = resolver.resolve(where.host, std::to_string(where.port), detail::tcp::resolver::passive, failure);
  if (failure || found.empty()) {
    return fail(errc::invalid_argument, where.text(), "no address of this machine has that name: " + failure.message());
  }
  const detail::tcp::endpoint local = found.begin()->endpoint();
  auto acceptor = std::make_unique<detail::tcp::acceptor>(*io);
  if (acceptor->open(local.protocol(), failure); failure) return detail::bind_error(where, failure);
  acceptor->set_option(asio::socket_base::reuse_address{true}, failure);
  if (acceptor->bind(local, failure); failure) return detail::bind_error(where, failure);
  if (acceptor->listen(asio::socket_base::max_listen_connections, failure); failure)
    return detail::bind_error(where, failure);
  endpoint bound = detail::to_endpoint(acceptor->local_endpoint(failure));
  if (!local.address().is_loopback()) {
    log(severity::warning, "listening on " + bound.text() + ": links are not encrypted; use a private network or a tunnel");
  }
  return listener{std::make_unique<detail::bound_port>(detail::bound_port{std::move(io), std::move(acceptor)}),
                  std::move(bound)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_LISTENER_IPP
#endif

// ---- causeway/net/impl/asio_accept.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_ACCEPT_IPP
#define CAUSEWAY_NET_IMPL_ASIO_ACCEPT_IPP

#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL accepting::accepting(asio::io_context& io, std::unique_ptr<tcp::acceptor> acceptor, taken_handler taken,
                                   failed_handler failed)
    : acceptor_{std::move(acceptor)}, pause_{io}, taken_{std::move(taken)}, failed_{std::move(failed)} {}

CAUSEWAY_DECL void accepting::start() {
  if (over_) return;
  acceptor_->async_accept([self = shared_from_this()](std::error_code failure, tcp::socket socket) {
    if (self->over_ || failure == asio::error::operation_aborted) return;
    if (failure) return self->fail(failure);
    try {
      self->taken_(std::move(socket));
    } catch (const std::bad_alloc&) {
      return self->fail(std::make_error_code(std::errc::not_enough_memory));
    }
    self->start();
  });
}

CAUSEWAY_DECL void accepting::stop() {
  over_ = true;
  std::error_code ignored;
  acceptor_->close(ignored);
  pause_.cancel();
  taken_ = {};
  failed_ = {};
}

CAUSEWAY_DECL void accepting::fail(const std::error_code& failure) {
  failed_(failure.message());
  pause_.expires_after(pause);
  pause_.async_wait(completion{[self = shared_from_this()](std::error_code stopped) {
    if (!stopped) self->start();
  }});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_ACCEPT_IPP
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

// ---- causeway/net/fabric_options.hpp ----
#ifndef CAUSEWAY_NET_FABRIC_OPTIONS_HPP
#define CAUSEWAY_NET_FABRIC_OPTIONS_HPP

// What a fabric over TCP is told (net/asio_fabric.hpp).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

struct handshake_options {
  std::uint64_t run_id = 0;
  std::size_t strangers = 128;  ///< accepted connections that are no link yet; see net/half_open.hpp
  std::size_t dials = 64;       ///< under way at once; others wait for their turn
  std::size_t first_frames = std::size_t{4} << 10U;
  std::chrono::nanoseconds frame = std::chrono::seconds{5};       ///< for one frame to come
  std::chrono::nanoseconds handshake = std::chrono::seconds{10};  ///< for all of it, the dialling included
  log_sink log{};
  piece_source pieces{};  ///< for those who ask what run this is; none: they are refused
};

}  // namespace detail

struct fabric_options {
  std::uint64_t run_id = 0;          ///< which run; never 0
  peer_id id = 0;                    ///< who we are in it; never 0
  std::string announce{};            ///< host, or host:port, at which others reach us; empty: where we listen or seem to be
  std::size_t streams_per_link = 0;  ///< connections for data; 0: one on loopback or where the kernel has BBR, else 16
  std::size_t most_peers = 4096;     ///< links; a new peer may get the one of a peer that is gone
  transport_options transport{};     ///< `silence` is the least patience with a silent peer
  detail::handshake_options handshake{};  ///< limits on strangers; run and log are taken from here
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FABRIC_OPTIONS_HPP

// ---- causeway/net/asio_fabric.hpp ----
#ifndef CAUSEWAY_NET_ASIO_FABRIC_HPP
#define CAUSEWAY_NET_ASIO_FABRIC_HPP

// The fabric over TCP: listens for as long as it lives, dials whom it is told to, keeps one link to each peer, and carries
// control messages and data on connections of their own, so that neither holds the other up.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
template <class Whole>
class basic_fabric_core;  // net/asio_core.hpp
using fabric_core = basic_fabric_core<void>;
}  // namespace detail

template <class Whole>
class basic_asio_fabric;
using asio_fabric = basic_asio_fabric<void>;

/// TCP to peers that come and go; made by `open_fabric`. docs/design/network.md says why it is as it is,
/// docs/reference/wire_format.md what it says to the others.
///
/// Threading: see net/fabric.hpp. Events come from the trainer's thread while it is inside `wait` or `block`, else from a
/// thread of the fabric's. `id`, `address`, `now`, `stats`, `streams` and `describe_waits` may be called from any thread.
///
/// Memory: data that nobody asked for yet is kept as in asio_transport; when reading of it pauses, control messages still
/// come. Control messages that the other side does not take are kept up to transport_options::control_backlog; then its
/// connection is given up.
template <class Whole>
class basic_asio_fabric final : public fabric {
 public:
  basic_asio_fabric(listener at, fabric_options options);
  basic_asio_fabric(const basic_asio_fabric&) = delete;
  basic_asio_fabric& operator=(const basic_asio_fabric&) = delete;
  ~basic_asio_fabric() override;

  [[nodiscard]] peer_id id() const override;
  [[nodiscard]] std::string address() const override;

  void attach(fabric_events* events) override;

  [[nodiscard]] time_point now() const override;
  void dial(const std::string& to) override;
  void close(peer_index link, const std::string& why) override;
  [[nodiscard]] bool is_up(peer_index link) const override;
  void post(peer_index link, std::vector<std::byte> message, bool bulk = false) override;
  void wake_at(time_point when) override;
  void cancel_before(std::uint32_t epoch) override;
  void aside(std::function<void()> work, std::function<void()> then) override;

  /// `bytes` must stay valid and unchanged until the operation was waited for, or its epoch was cancelled.
  operation send(peer_index link, const message_id& id, std::span<const std::byte> bytes) override;
  operation receive(peer_index link, const message_id& id, std::span<std::byte> buffer) override;
  result<std::size_t> wait(operation op, time_point deadline) override;
  [[nodiscard]] bool done(operation op) const override;

  void locked(const std::function<void()>& what) override;
  result<bool> block(const std::function<bool()>& done, time_point deadline) override;

  [[nodiscard]] traffic stats() const override;
  [[nodiscard]] std::string describe_waits() const override;

  /// TCP connections for data to a peer that stand.
  [[nodiscard]] std::size_t streams(peer_index link) const;

  /// A function that ends the trainer's `wait` and `block`, and all later ones, with errc::cancelled: what a signal's
  /// watcher calls. May be called from any thread, also when the fabric is gone. Connections stay, so that `close` can
  /// flush.
  [[nodiscard]] std::function<void()> interrupter() const;

  /// Sends what was posted (but not bulk), says goodbye to everybody, waits up to `close_grace` for theirs, and ends the
  /// thread. No more events come. Operations that were not waited for end with errc::cancelled. The destructor does the
  /// same.
  void close();

 private:
  std::shared_ptr<detail::fabric_core> core_;
};

/// Makes a fabric that listens at `at`. It accepts connections once somebody is attached.
CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(listener at, fabric_options options);

/// The same; listens at `where` (port 0: any free one).
CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(const endpoint& where, fabric_options options);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_FABRIC_HPP

// ---- causeway/core/owned_descriptor.hpp ----
#ifndef CAUSEWAY_CORE_OWNED_DESCRIPTOR_HPP
#define CAUSEWAY_CORE_OWNED_DESCRIPTOR_HPP

// A file descriptor that is closed when its owner ends: of files, sockets and shared memory alike.

#include <unistd.h>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Owns a file descriptor. -1: none.
class owned_descriptor {
 public:
  explicit owned_descriptor(int fd = -1) noexcept : fd_{fd} {}
  owned_descriptor(owned_descriptor&& other) noexcept : fd_{other.release()} {}
  owned_descriptor& operator=(owned_descriptor&& other) noexcept {
    if (this == &other) return *this;
    (void)close();
    fd_ = other.release();
    return *this;
  }
  ~owned_descriptor() { (void)close(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

  /// False if the system reports a late write error (network file systems do it here).
  bool close() noexcept { return fd_ < 0 || ::close(release()) == 0; }

 private:
  int fd_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_OWNED_DESCRIPTOR_HPP

// ---- causeway/net/shared_rings.hpp ----
#ifndef CAUSEWAY_NET_SHARED_RINGS_HPP
#define CAUSEWAY_NET_SHARED_RINGS_HPP

// Two ring buffers in memory that two processes share, one for each direction: bytes in, the same bytes out. Linux only
// (memfd). The other process may be defect or torn: its counters are read once and checked, and nothing else of the shared
// memory decides anything. Who sleeps and who must be woken is said here; waking is for whoever owns it.
// docs/design/shared_memory.md says why it is as it is.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

// Memory that processes of one host share: it has no name, and ends with the last who has it.

/// A mapping, and the descriptor by which others get it.
class shared_pages {
 public:
  /// All zero, and sealed, so that nobody makes it smaller. Its pages are allocated here: errc::out_of_memory where the
  /// machine has none to spare.
  CAUSEWAY_DECL static result<shared_pages> make(std::size_t length);

  /// What another process made, `length` bytes of it.
  CAUSEWAY_DECL static result<shared_pages> map(owned_descriptor memory, std::size_t length);

  shared_pages(shared_pages&& other) noexcept
      : descriptor_{std::move(other.descriptor_)}, base_{std::exchange(other.base_, nullptr)}, length_{other.length_} {}
  shared_pages& operator=(shared_pages&&) = delete;
  ~shared_pages();

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] const owned_descriptor& descriptor() const noexcept { return descriptor_; }
  /// The mapping is enough from now on.
  void close_descriptor() noexcept { (void)descriptor_.close(); }

 private:
  shared_pages(owned_descriptor memory, std::byte* base, std::size_t length) noexcept
      : descriptor_{std::move(memory)}, base_{base}, length_{length} {}

  owned_descriptor descriptor_;
  std::byte* base_;
  std::size_t length_;
};

/// The head of the shared memory, one for each ring. Each counter is written by one side alone and only grows.
struct ring_head {
  alignas(64) std::uint64_t written;        ///< bytes, by the writer
  alignas(64) std::uint64_t read;           ///< bytes, by the reader
  alignas(64) std::uint32_t reader_sleeps;  ///< set by the reader, taken by the writer
  alignas(64) std::uint32_t writer_sleeps;  ///< set by the writer, taken by the reader
};

/// One side's view. Not thread-safe: calls of one side come one at a time; the two sides are on their own.
class shared_rings {
 public:
  static constexpr std::size_t least_ring = std::size_t{64} << 10U;
  static constexpr std::size_t most_ring = std::size_t{64} << 20U;
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10U;  ///< moved at most between two looks at the counters

  /// Makes the memory, with two rings of `ring_bytes` each, a power of two between the limits. Its pages are allocated
  /// here: errc::out_of_memory where the machine has none to spare.
  CAUSEWAY_DECL static result<shared_rings> make(std::size_t ring_bytes);

  /// Takes part in the memory that another process made and whose descriptor it handed to us. errc::protocol where it could
  /// shrink under us, or is no memory of ours.
  CAUSEWAY_DECL static result<shared_rings> join(owned_descriptor memory);

  /// Of a ring.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// What the other process is given.
  [[nodiscard]] const owned_descriptor& memory() const noexcept { return pages_.descriptor(); }
  /// The mapping is enough from now on.
  void close_descriptor() noexcept { pages_.close_descriptor(); }

  /// Copies as much of `first` and then of `second` as there is room for, at most a piece; the number of bytes.
  CAUSEWAY_DECL std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second = {}) noexcept;

  /// Copies as much as there is, at most a piece, out to `to`; the number of bytes.
  CAUSEWAY_DECL std::size_t read(std::span<std::byte> to) noexcept;

  /// Says that this side waits for something to read. False when there is something already.
  CAUSEWAY_DECL bool sleep_until_readable() noexcept;

  /// Says that this side waits until half of its ring is free. False when it is already.
  CAUSEWAY_DECL bool sleep_until_writable() noexcept;

  /// After a write or a read: whether the other side sleeps and has something to do now. Said once for each sleep.
  CAUSEWAY_DECL [[nodiscard]] bool must_wake() noexcept;

  /// The other side's counters cannot be: nothing is read or written any more.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  shared_rings(shared_pages pages, std::size_t capacity, bool maker) noexcept
      : pages_{std::move(pages)}, capacity_{capacity}, maker_{maker} {}

  static constexpr std::size_t head_bytes = 4096;  // of both rings; the rings follow

  static std::size_t length_of(std::size_t ring_bytes) noexcept { return head_bytes + 2 * ring_bytes; }

  CAUSEWAY_DECL [[nodiscard]] ring_head& head(bool outgoing) const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::byte* bytes(bool outgoing) const noexcept;

  /// Bytes in a ring by its two counters; more than fit: it is broken.
  CAUSEWAY_DECL std::size_t used(std::uint64_t written, std::uint64_t read) noexcept;

  CAUSEWAY_DECL void copy_in(std::uint64_t at, std::span<const std::byte> from) noexcept;

  shared_pages pages_;
  std::size_t capacity_;
  bool maker_;                 // writes the first ring
  std::uint64_t written_ = 0;  // ours: what the shared memory says of it is never read
  std::uint64_t read_ = 0;
  std::size_t filled_ = 0;  // bytes that the last read left in the incoming ring
  bool wrote_ = false;      // since the last look at who sleeps
  bool freed_ = false;
  bool broken_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_SHARED_RINGS_HPP

// ---- causeway/net/impl/shared_rings.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_SHARED_RINGS_IPP
#define CAUSEWAY_NET_IMPL_SHARED_RINGS_IPP

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL result<shared_pages> shared_pages::make(std::size_t length) {
  owned_descriptor memory{::memfd_create("causeway", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (memory.get() < 0) return fail(errc::io_failed, "shared memory", "this system gives none (memfd_create)");
  // Whether the machine has so much is found out now, not by a signal when it is touched.
  if (::posix_fallocate(memory.get(), 0, static_cast<off_t>(length)) != 0) {
    return fail(errc::out_of_memory, "shared memory", "there is no room for " + std::to_string(length) + " bytes");
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(errc::io_failed, "shared memory", "its size cannot be sealed");
  }
  return map(std::move(memory), length);
}

CAUSEWAY_DECL result<shared_pages> shared_pages::map(owned_descriptor memory, std::size_t length) {
  void* const base = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (base == MAP_FAILED) return fail(errc::out_of_memory, "shared memory", "it cannot be mapped");
  return shared_pages{std::move(memory), static_cast<std::byte*>(base), length};
}

CAUSEWAY_INLINE shared_pages::~shared_pages() {
  if (base_ != nullptr) (void)::munmap(base_, length_);
}

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free && std::atomic_ref<std::uint32_t>::is_always_lock_free,
              "a lock would be one process's own");

CAUSEWAY_DECL result<shared_rings> shared_rings::make(std::size_t ring_bytes) {
  CAUSEWAY_EXPECT(std::has_single_bit(ring_bytes) && ring_bytes >= least_ring && ring_bytes <= most_ring);
  CAUSEWAY_ASSIGN(shared_pages pages, shared_pages::make(length_of(ring_bytes)));
  return shared_rings{std::move(pages), ring_bytes, true};
}

CAUSEWAY_DECL result<shared_rings> shared_rings::join(owned_descriptor memory) {
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(errc::protocol, "shared memory", "what the other side handed over could shrink under us");
  }
  struct stat about {};
  if (::fstat(memory.get(), &about) != 0) return fail(errc::io_failed, "shared memory", "its size cannot be asked for");
  const auto length = static_cast<std::uint64_t>(about.st_size);
  const std::uint64_t ring = length > head_bytes ? (length - head_bytes) / 2 : 0;
  if (!std::has_single_bit(ring) || ring < least_ring || ring > most_ring || length_of(ring) != length) {
    return fail(errc::protocol, "shared memory", "what the other side handed over has an impossible size");
  }
  CAUSEWAY_ASSIGN(shared_pages pages, shared_pages::map(std::move(memory), length));
  pages.close_descriptor();
  return shared_rings{std::move(pages), ring, false};
}

CAUSEWAY_DECL ring_head& shared_rings::head(bool outgoing) const noexcept {
  return reinterpret_cast<ring_head*>(pages_.base())[outgoing == maker_ ? 0 : 1];
}

CAUSEWAY_DECL std::byte* shared_rings::bytes(bool outgoing) const noexcept {
  return pages_.base() + head_bytes + (outgoing == maker_ ? 0 : capacity_);
}

CAUSEWAY_DECL std::size_t shared_rings::used(std::uint64_t written, std::uint64_t read) noexcept {
  const std::uint64_t n = written - read;
  if (n > capacity_) broken_ = true;
  return broken_ ? 0 : static_cast<std::size_t>(n);
}

CAUSEWAY_DECL void shared_rings::copy_in(std::uint64_t at, std::span<const std::byte> from) noexcept {
  if (from.empty()) return;
  std::byte* const ring = bytes(true);
  const auto begin = static_cast<std::size_t>(at & (capacity_ - 1));
  const std::size_t upto_end = std::min(from.size(), capacity_ - begin);
  std::memcpy(ring + begin, from.data(), upto_end);
  if (upto_end < from.size()) std::memcpy(ring, from.data() + upto_end, from.size() - upto_end);
}

CAUSEWAY_DECL std::size_t shared_rings::write(std::span<const std::byte> first,
                                              std::span<const std::byte> second) noexcept {
  if (broken_) return 0;
  ring_head& out = head(true);
  const std::size_t filled = used(written_, std::atomic_ref{out.read}.load(std::memory_order_acquire));
  if (broken_) return 0;
  const std::size_t room = std::min(capacity_ - filled, piece_bytes);
  first = first.first(std::min(first.size(), room));
  second = second.first(std::min(second.size(), room - first.size()));
  copy_in(written_, first);
  copy_in(written_ + first.size(), second);
  const std::size_t n = first.size() + second.size();
  written_ += n;
  if (n == 0) return 0;
  wrote_ = true;
  std::atomic_ref{out.written}.store(written_, std::memory_order_seq_cst);
  return n;
}

CAUSEWAY_DECL std::size_t shared_rings::read(std::span<std::byte> to) noexcept {
  if (broken_) return 0;
  ring_head& in = head(false);
  const std::size_t there = used(std::atomic_ref{in.written}.load(std::memory_order_acquire), read_);
  const std::size_t n = std::min({there, to.size(), piece_bytes});
  if (n == 0) return 0;
  const std::byte* const ring = bytes(false);
  const auto begin = static_cast<std::size_t>(read_ & (capacity_ - 1));
  const std::size_t upto_end = std::min(n, capacity_ - begin);
  std::memcpy(to.data(), ring + begin, upto_end);
  if (upto_end < n) std::memcpy(to.data() + upto_end, ring, n - upto_end);
  read_ += n;
  filled_ = there - n;
  freed_ = true;
  std::atomic_ref{in.read}.store(read_, std::memory_order_seq_cst);
  return n;
}

CAUSEWAY_DECL bool shared_rings::sleep_until_readable() noexcept {
  ring_head& in = head(false);
  const std::atomic_ref sleeps{in.reader_sleeps};
  sleeps.store(1, std::memory_order_seq_cst);
  const bool empty = used(std::atomic_ref{in.written}.load(std::memory_order_seq_cst), read_) == 0 && !broken_;
  if (!empty) sleeps.store(0, std::memory_order_seq_cst);
  return empty;
}

CAUSEWAY_DECL bool shared_rings::sleep_until_writable() noexcept {
  ring_head& out = head(true);
  const std::atomic_ref sleeps{out.writer_sleeps};
  sleeps.store(1, std::memory_order_seq_cst);
  const std::size_t filled = used(written_, std::atomic_ref{out.read}.load(std::memory_order_seq_cst));
  const bool full = filled > capacity_ / 2 && !broken_;
  if (!full) sleeps.store(0, std::memory_order_seq_cst);
  return full;
}

CAUSEWAY_DECL bool shared_rings::must_wake() noexcept {
  const auto taken = [](std::uint32_t& flag) {
    const std::atomic_ref sleeps{flag};
    return sleeps.load(std::memory_order_seq_cst) != 0 && sleeps.exchange(0, std::memory_order_seq_cst) != 0;
  };
  const bool reader = std::exchange(wrote_, false) && taken(head(true).reader_sleeps);
  const bool writer = std::exchange(freed_, false) && filled_ <= capacity_ / 2 && taken(head(false).writer_sleeps);
  return reader || writer;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_SHARED_RINGS_IPP
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

// ---- causeway/net/memory_budget.hpp ----
#ifndef CAUSEWAY_NET_MEMORY_BUDGET_HPP
#define CAUSEWAY_NET_MEMORY_BUDGET_HPP

// How much all links of one engine together keep in memory for a purpose. A limit for each link does not bound the sum:
// strangers can make as many links as they like.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Not thread-safe: the transport locks.
class memory_budget {
 public:
  explicit memory_budget(std::size_t limit = SIZE_MAX) : limit_{limit} {}

  void take(std::size_t bytes) noexcept { used_ += bytes; }
  void give(std::size_t bytes) noexcept { used_ -= bytes; }

  /// `more` bytes would go beyond `times` the limit.
  [[nodiscard]] bool exceeded(std::size_t more, std::size_t times = 1) const noexcept {
    return (used_ + more) / times > limit_;
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_MEMORY_BUDGET_HPP

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

// ---- causeway/net/inbox.hpp ----
#ifndef CAUSEWAY_NET_INBOX_HPP
#define CAUSEWAY_NET_INBOX_HPP

// What arrives from one peer: finds the receive that a message belongs to, says where each chunk's bytes go, and keeps
// messages that nobody asked for yet. Pure bookkeeping without sockets.
//
// Messages are matched in the order of their sequence numbers, also when their chunks overtake each other on different
// streams. Memory follows the bytes that arrived: a message nobody asked for is kept chunk by chunk, never allocated by its
// claimed length. Not thread-safe: the transport locks.

#include <deque>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// The chunk that a stream is reading. It names no address: `inbox::place` tells where the next bytes go, because the
/// receive may end, and its buffer go, while the chunk is still coming in.
struct chunk_target {
  enum class kind : std::uint8_t { user_buffer, kept, discard, parked };
  kind how = kind::parked;  ///< parked: no room, read nothing more from this stream
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

struct inbox_limits {
  std::size_t chunk = std::size_t{1} << 20U;        ///< the sender's chunk length
  std::size_t pause_at = std::size_t{64} << 20U;    ///< kept bytes at which reading stops while no receive is open
  std::size_t refuse_at = std::size_t{256} << 20U;  ///< kept bytes at which the peer is dropped
  memory_budget* shared = nullptr;                  ///< with the other peers: beyond it each keeps `least_share`, and waits
  std::size_t least_share = std::size_t{4} << 20U;
};

class inbox {
 public:
  CAUSEWAY_DECL inbox(operation_table& operations, peer_index peer, const inbox_limits& limits);

  /// `name`: of the peer, for messages.
  CAUSEWAY_DECL inbox(operation_table& operations, std::string name, const inbox_limits& limits);
  ~inbox() { free(kept_); }
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  /// A chunk's header came in. An error means that the peer broke the protocol and must be dropped.
  CAUSEWAY_DECL result<chunk_target> begin_chunk(const frame_header& h);

  /// Where the bytes of a chunk belong, now; null when nobody wants them any more. To be asked before each piece of it.
  CAUSEWAY_DECL [[nodiscard]] std::byte* place(const chunk_target& spot) const;

  /// All bytes of a chunk came, and are where `place` said.
  CAUSEWAY_DECL void end_chunk(const chunk_target& spot);

  /// The sender gave a message up after `chunk_offset` bytes of it. Its receive ends, and its buffer is the caller's again.
  /// The notice may overtake chunks, and other streams may be in the middle of some: the message is kept until all of them
  /// are over.
  CAUSEWAY_DECL result<void> abort_message(const frame_header& h);

  /// A receive was started. Ends it at once when its message is here already.
  CAUSEWAY_DECL void post(slot_index slot);

  /// A receive is given up: nothing touches its buffer from now on.
  CAUSEWAY_DECL void cancel(slot_index slot);

  /// The connection is over: ends every receive that still misses bytes. Complete messages stay and can be received.
  CAUSEWAY_DECL void fail_all(const error& why);

  /// Drops kept messages of epochs before `epoch`, of its kind: nobody will ask for them again.
  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// The same, and drops what still comes of them.
  CAUSEWAY_DECL void refuse_before(std::uint32_t epoch);

  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_; }

 private:
  static constexpr std::size_t remembered_cancels = 256;
  static constexpr std::size_t message_cost = 256;  // what an empty message counts, so that floods of them are bounded

  struct kept_chunk {
    std::uint64_t offset = 0;
    std::size_t length = 0;
    bool filled = false;
    std::unique_ptr<std::byte[]> bytes;
  };

  struct message {
    message_id id;
    std::uint64_t length = 0;
    std::uint64_t received = 0;
    std::uint64_t coming = 0;    ///< bytes of chunks that streams are in the middle of
    std::uint64_t expected = 0;  ///< the length, or less once the sender gave it up
    slot_index slot = no_slot;   ///< the receive it goes to
    bool discard = false;
    std::vector<bool> seen;  ///< chunks that came; empty for a message of one chunk
    bool seen_only = false;
    std::vector<kept_chunk> kept;

    [[nodiscard]] bool complete() const { return received == expected && (length != 0 || seen_only || discard); }
    [[nodiscard]] bool was_seen(std::uint64_t chunk) const { return seen.empty() ? seen_only : seen[chunk]; }
    CAUSEWAY_DECL void mark_seen(std::uint64_t chunk);
  };
  using message_map = std::map<std::uint64_t, message>;

  static std::size_t cost_of(const message& m) { return message_cost + m.seen.size() / 8; }

  CAUSEWAY_DECL static bool same_conversation(const message_id& a, const message_id& b);

  CAUSEWAY_DECL [[nodiscard]] error broken(const char* what) const;

  /// The message that a header belongs to; a new one is entered and, when its turn has come, matched.
  CAUSEWAY_DECL result<message*> announce(const frame_header& h, bool aborted = false);

  /// Matches every message whose predecessors have all been seen. One that overtook others may be complete already; the
  /// one just announced is still needed by the caller.
  CAUSEWAY_DECL void match_in_order(std::uint64_t just_announced);

  CAUSEWAY_DECL void match(message& m);

  CAUSEWAY_DECL void deliver_to(message& m, slot_index slot);

  CAUSEWAY_DECL result<void> check_chunk(const message& m, const frame_header& h) const;

  CAUSEWAY_DECL result<void> keep_chunk(message& m, const frame_header& h, chunk_target& spot);

  /// All peers together keep more than `times` the budget, and this one more than its share.
  CAUSEWAY_DECL [[nodiscard]] bool crowded(std::size_t after, std::size_t times) const;
  CAUSEWAY_DECL void keep(std::size_t bytes);
  CAUSEWAY_DECL void free(std::size_t bytes);

  CAUSEWAY_DECL void mark_filled(message& m, std::uint64_t offset);

  CAUSEWAY_DECL void copy_if_filled(const message& m, const kept_chunk& chunk);

  /// Frees kept chunks but for those that a stream still writes into.
  CAUSEWAY_DECL void drop_filled(message& m);

  CAUSEWAY_DECL void discard(message& m);

  CAUSEWAY_DECL void retire_if_complete(message_map::iterator at);

  CAUSEWAY_DECL void retire_if_complete(message_map::iterator at, std::uint64_t frontier);

  CAUSEWAY_DECL message_map::iterator erase(message_map::iterator at);

  operation_table* operations_;
  std::string name_;
  inbox_limits limits_;
  std::uint64_t frontier_ = 0;  // every message before it was seen and matched or kept
  message_map messages_;
  std::deque<slot_index> open_;      // receives without a message yet, oldest first
  std::deque<message_id> given_up_;  // receives that were cancelled before their message came
  std::size_t kept_ = 0;
  past_epochs past_;  // messages of these are dropped
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_INBOX_HPP

// ---- causeway/net/impl/inbox.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_INBOX_IPP
#define CAUSEWAY_NET_IMPL_INBOX_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL inbox::inbox(operation_table& operations, peer_index peer, const inbox_limits& limits)
    : inbox{operations, peer_name(peer), limits} {}

CAUSEWAY_DECL inbox::inbox(operation_table& operations, std::string name, const inbox_limits& limits)
    : operations_{&operations}, name_{std::move(name)}, limits_{limits} {}

CAUSEWAY_DECL void inbox::retire_if_complete(message_map::iterator at) { retire_if_complete(at, frontier_); }

CAUSEWAY_DECL result<chunk_target> inbox::begin_chunk(const frame_header& h) {
  CAUSEWAY_ASSIGN(message* const m, announce(h));
  CAUSEWAY_TRY(check_chunk(*m, h));
  chunk_target spot{chunk_target::kind::discard, h.sequence, h.chunk_offset, h.chunk_length};
  if (m->slot != no_slot) {
    spot.how = chunk_target::kind::user_buffer;
  } else if (!m->discard) {
    CAUSEWAY_TRY(keep_chunk(*m, h, spot));
  }
  if (spot.how == chunk_target::kind::parked) return spot;
  m->mark_seen(h.chunk_offset / limits_.chunk);
  m->coming += h.chunk_length;
  return spot;
}

CAUSEWAY_DECL std::byte* inbox::place(const chunk_target& spot) const {
  const auto found = messages_.find(spot.sequence);
  if (spot.how == chunk_target::kind::discard || found == messages_.end()) return nullptr;
  const message& m = found->second;
  if (spot.how == chunk_target::kind::user_buffer) {
    return m.slot == no_slot ? nullptr : (*operations_)[m.slot].target + spot.offset;
  }
  const auto kept =
      std::find_if(m.kept.begin(), m.kept.end(), [&](const kept_chunk& c) { return c.offset == spot.offset; });
  return kept == m.kept.end() ? nullptr : kept->bytes.get();
}

CAUSEWAY_DECL void inbox::end_chunk(const chunk_target& spot) {
  const auto found = messages_.find(spot.sequence);
  CAUSEWAY_EXPECT(found != messages_.end());
  message& m = found->second;
  m.coming -= spot.length;
  m.received += spot.length;
  if (spot.how == chunk_target::kind::kept) mark_filled(m, spot.offset);
  if (m.slot != no_slot) (*operations_)[m.slot].moved = m.received;
  retire_if_complete(found);
}

CAUSEWAY_DECL result<void> inbox::abort_message(const frame_header& h) {
  CAUSEWAY_ASSIGN(message* const m, announce(h, true));
  if (h.chunk_offset < m->received + m->coming) return broken("it takes back bytes that it already sent");
  if (m->slot != no_slot) {
    operations_->finish(m->slot, fail(errc::cancelled, name_, "it gave up sending this message"));
  }
  discard(*m);
  m->expected = h.chunk_offset;
  retire_if_complete(messages_.find(h.sequence));
  return {};
}

CAUSEWAY_DECL void inbox::post(slot_index slot) {
  const message_id id = (*operations_)[slot].id;
  for (auto at = messages_.begin(); at != messages_.end() && at->first < frontier_; ++at) {
    message& m = at->second;
    if (m.slot != no_slot || m.discard || !same_conversation(m.id, id)) continue;
    deliver_to(m, slot);
    retire_if_complete(at);
    return;
  }
  std::erase_if(given_up_, [&](const message_id& old) { return same_conversation(old, id); });
  open_.push_back(slot);
}

CAUSEWAY_DECL void inbox::cancel(slot_index slot) {
  if (const auto at = std::find(open_.begin(), open_.end(), slot); at != open_.end()) {
    open_.erase(at);
    given_up_.push_back((*operations_)[slot].id);
    if (given_up_.size() > remembered_cancels) given_up_.pop_front();
    return;
  }
  for (auto& [sequence, m] : messages_) {
    if (m.slot == slot) return discard(m);
  }
}

CAUSEWAY_DECL void inbox::fail_all(const error& why) {
  for (const slot_index slot : open_) operations_->finish(slot, why);
  open_.clear();
  for (auto at = messages_.begin(); at != messages_.end();) {
    if (at->second.slot != no_slot) operations_->finish(at->second.slot, why);
    const bool whole = at->second.complete() && !at->second.discard && at->first < frontier_;
    at = whole ? std::next(at) : erase(at);
  }
}

CAUSEWAY_DECL void inbox::discard_before(std::uint32_t epoch) {
  const past_epochs over{epoch};
  for (auto at = messages_.begin(); at != messages_.end();) {
    const auto here = at++;
    if (!over.contains(here->second.id.epoch) || here->second.slot != no_slot || here->first >= frontier_) continue;
    discard(here->second);
    retire_if_complete(here);
  }
}

CAUSEWAY_DECL void inbox::refuse_before(std::uint32_t epoch) {
  past_.end_before(epoch);
  std::erase_if(given_up_, [&](const message_id& old) { return past_.contains(old.epoch); });
  discard_before(epoch);
}

CAUSEWAY_DECL void inbox::message::mark_seen(std::uint64_t chunk) {
  if (seen.empty()) seen_only = true;
  if (!seen.empty()) seen[chunk] = true;
}

CAUSEWAY_DECL bool inbox::same_conversation(const message_id& a, const message_id& b) {
  return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
}

CAUSEWAY_DECL error inbox::broken(const char* what) const {
  return fail(errc::protocol, name_, std::string{what} + "; the connection was dropped");
}

CAUSEWAY_DECL auto inbox::announce(const frame_header& h, bool aborted) -> result<message*> {
  if (const auto found = messages_.find(h.sequence); found != messages_.end()) {
    message& m = found->second;
    if (m.id != h.id || m.length != h.message_length) return broken("it changed a message half way");
    return &m;
  }
  if (h.sequence < frontier_) return broken("it sent a message twice");
  if (kept_ > limits_.refuse_at) return broken("it sent far more than anybody asked for");
  message& m = messages_[h.sequence];
  m.id = h.id;
  m.length = m.expected = h.message_length;
  m.discard = aborted;
  if (h.message_length > limits_.chunk) m.seen.resize((h.message_length - 1) / limits_.chunk + 1);
  keep(cost_of(m));
  match_in_order(h.sequence);
  return &m;
}

CAUSEWAY_DECL void inbox::match_in_order(std::uint64_t just_announced) {
  for (auto at = messages_.find(frontier_); at != messages_.end() && at->first == frontier_; ++frontier_) {
    const auto here = at++;
    match(here->second);
    if (here->first != just_announced) retire_if_complete(here, frontier_ + 1);
  }
}

CAUSEWAY_DECL void inbox::match(message& m) {
  if (m.discard) return;
  if (past_.contains(m.id.epoch)) return discard(m);
  for (auto at = open_.begin(); at != open_.end(); ++at) {
    if (!same_conversation((*operations_)[*at].id, m.id)) continue;
    const slot_index slot = *at;
    open_.erase(at);
    return deliver_to(m, slot);
  }
  const auto late =
      std::find_if(given_up_.begin(), given_up_.end(), [&](const message_id& id) { return same_conversation(id, m.id); });
  if (late == given_up_.end()) return;
  given_up_.erase(late);
  discard(m);
}

CAUSEWAY_DECL void inbox::deliver_to(message& m, slot_index slot) {
  pending_operation& op = (*operations_)[slot];
  if (op.id.parent != m.id.parent) {
    operations_->finish(slot, fail(errc::wrong_parent, name_,
                                   "its message (" + to_text(m.id) +
                                       ") is based on another committed state than ours; it was refused unread"));
    return discard(m);
  }
  if (m.length > op.length) {
    operations_->finish(slot, fail(errc::too_large, name_,
                                   "its message (" + to_text(m.id) + ") has " + std::to_string(m.length) +
                                       " bytes, we expected at most " + std::to_string(op.length)));
    return discard(m);
  }
  m.slot = slot;
  op.moved = m.received;
  for (const kept_chunk& chunk : m.kept) copy_if_filled(m, chunk);
  drop_filled(m);
}

CAUSEWAY_DECL result<void> inbox::check_chunk(const message& m, const frame_header& h) const {
  if (h.chunk_offset % limits_.chunk != 0) return broken("it sent a chunk at a place where none starts");
  const std::uint64_t whole = std::min<std::uint64_t>(limits_.chunk, h.message_length - h.chunk_offset);
  if (h.chunk_length != whole) return broken("it sent a chunk of the wrong length");
  if (m.was_seen(h.chunk_offset / limits_.chunk)) return broken("it sent a chunk twice");
  if (m.received + m.coming + h.chunk_length > m.expected) return broken("it went on with a message that it had given up");
  return {};
}

CAUSEWAY_DECL result<void> inbox::keep_chunk(message& m, const frame_header& h, chunk_target& spot) {
  const std::size_t after = kept_ + h.chunk_length;
  if ((after > limits_.pause_at || crowded(after, 1)) && open_.empty()) {
    spot.how = chunk_target::kind::parked;
    return {};
  }
  // A receive is open and its message may be behind this one: read on beyond the limit rather than wait for ever.
  if (after > limits_.refuse_at) return broken("it sent far more than anybody asked for");
  if (crowded(after, 2)) return broken("it sent what nobody asked for, when others had used up the memory for that");
  m.kept.push_back({h.chunk_offset, h.chunk_length, false, std::unique_ptr<std::byte[]>{new std::byte[h.chunk_length]}});
  keep(h.chunk_length);
  spot.how = chunk_target::kind::kept;
  return {};
}

CAUSEWAY_DECL bool inbox::crowded(std::size_t after, std::size_t times) const {
  return limits_.shared != nullptr && after > limits_.least_share && limits_.shared->exceeded(after - kept_, times);
}

CAUSEWAY_DECL void inbox::keep(std::size_t bytes) {
  kept_ += bytes;
  if (limits_.shared != nullptr) limits_.shared->take(bytes);
}

CAUSEWAY_DECL void inbox::free(std::size_t bytes) {
  kept_ -= bytes;
  if (limits_.shared != nullptr) limits_.shared->give(bytes);
}

CAUSEWAY_DECL void inbox::mark_filled(message& m, std::uint64_t offset) {
  for (kept_chunk& chunk : m.kept) {
    if (chunk.offset != offset) continue;
    chunk.filled = true;
    copy_if_filled(m, chunk);
  }
  if (m.slot != no_slot || m.discard) drop_filled(m);
}

CAUSEWAY_DECL void inbox::copy_if_filled(const message& m, const kept_chunk& chunk) {
  if (m.slot == no_slot || !chunk.filled || chunk.length == 0) return;
  std::memcpy((*operations_)[m.slot].target + chunk.offset, chunk.bytes.get(), chunk.length);
}

CAUSEWAY_DECL void inbox::drop_filled(message& m) {
  std::erase_if(m.kept, [&](const kept_chunk& chunk) {
    if (chunk.filled) free(chunk.length);
    return chunk.filled;
  });
}

CAUSEWAY_DECL void inbox::discard(message& m) {
  m.discard = true;
  m.slot = no_slot;
  drop_filled(m);
}

CAUSEWAY_DECL void inbox::retire_if_complete(message_map::iterator at, std::uint64_t frontier) {
  message& m = at->second;
  if (!m.complete() || at->first >= frontier) return;
  if (m.slot == no_slot && !m.discard) return;
  if (m.slot != no_slot) operations_->finish(m.slot);
  erase(at);
}

CAUSEWAY_DECL auto inbox::erase(message_map::iterator at) -> message_map::iterator {
  for (const kept_chunk& chunk : at->second.kept) free(chunk.length);
  free(cost_of(at->second));
  return messages_.erase(at);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_INBOX_IPP
#endif

// ---- causeway/net/deadline.hpp ----
#ifndef CAUSEWAY_NET_DEADLINE_HPP
#define CAUSEWAY_NET_DEADLINE_HPP

// How long to wait, derived from how long it took before. Smoothed mean and mean deviation of observed times as TCP keeps
// them for its retransmission timer (Jacobson and Karels 1988; RFC 6298, equations 2.2 and 2.3), with a floor and a cap.

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct arrival_options {
  duration floor = std::chrono::seconds{1};  ///< never wait less
  duration cap = std::chrono::minutes{10};   ///< never wait longer; also the answer before the first observation
  double deviations = 4.0;                   ///< RFC 6298's K
  double mean_weight = 1.0 / 8.0;            ///< RFC 6298's alpha: share of a new observation in the mean
  double deviation_weight = 1.0 / 4.0;       ///< RFC 6298's beta
};

/// Estimates by when the next arrival is overdue. A few arithmetic operations per observation; serializable.
class arrival_statistics {
 public:
  arrival_statistics() = default;
  explicit arrival_statistics(const arrival_options& options) : options_{options} {}

  /// One more arrival took `took`. Negative times count as 0.
  CAUSEWAY_DECL void observe(duration took) noexcept;

  /// A wait of `waited` ended without an arrival: the next one may take twice as long (RFC 6298, rule 5.5), up to the cap.
  void overdue(duration waited) noexcept { observe(std::min(waited * 2, options_.cap)); }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] duration mean() const noexcept { return from_seconds(mean_); }
  [[nodiscard]] duration deviation() const noexcept { return from_seconds(deviation_); }

  /// mean + K deviations, within floor and cap.
  CAUSEWAY_DECL [[nodiscard]] duration patience() const noexcept;

  /// The deadline of something that starts at `now`.
  [[nodiscard]] time_point deadline(time_point now) const noexcept { return now + patience(); }

  void serialize(auto& ar) { ar(mean_, deviation_, count_); }

 private:
  CAUSEWAY_DECL static duration from_seconds(double s) noexcept;

  arrival_options options_;
  double mean_ = 0;
  double deviation_ = 0;
  std::uint64_t count_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_DEADLINE_HPP

// ---- causeway/net/impl/deadline.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_DEADLINE_IPP
#define CAUSEWAY_NET_IMPL_DEADLINE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL void arrival_statistics::observe(duration took) noexcept {
  const double t = std::max(0.0, seconds(took));
  if (count_ == 0) {
    mean_ = t;
    deviation_ = t / 2;
  } else {
    const double off = t > mean_ ? t - mean_ : mean_ - t;
    deviation_ += options_.deviation_weight * (off - deviation_);
    mean_ += options_.mean_weight * (t - mean_);
  }
  ++count_;
}

CAUSEWAY_DECL duration arrival_statistics::patience() const noexcept {
  if (count_ == 0) return options_.cap;
  return std::clamp(from_seconds(mean_ + options_.deviations * deviation_), options_.floor, options_.cap);
}

CAUSEWAY_DECL duration arrival_statistics::from_seconds(double s) noexcept {
  constexpr double longest = 1e9;  // about 30 years: keeps the conversion within 64 bits
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>{std::min(s, longest)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_DEADLINE_IPP
#endif

// ---- causeway/net/fields.hpp ----
#ifndef CAUSEWAY_NET_FIELDS_HPP
#define CAUSEWAY_NET_FIELDS_HPP

// A message lists its fields once, in their order on the wire, and is written and read by that list:
//
//   void fields(auto& wire) { wire(step, below{stage, most_stages}, loss); }
//
// A field is an unsigned integer; a bool or an enum; a float or double, refused where it is not finite; something that has
// `fields` itself, or `put(byte_writer&)` and `get(byte_reader&)`, as the ones below. What a stranger sent is never
// believed: a list takes no memory before its elements have come.

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

/// The integer whose bytes stand for a T.
template <class T>
constexpr auto integer_like() {
  if constexpr (std::is_same_v<T, bool>) {
    return std::uint8_t{};
  } else if constexpr (std::is_enum_v<T>) {
    return std::make_unsigned_t<std::underlying_type_t<T>>{};
  } else if constexpr (std::floating_point<T>) {
    return std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>{};
  } else if constexpr (std::unsigned_integral<T>) {
    return T{};
  }
}
template <class T>
using integer_of = decltype(integer_like<T>());

}  // namespace detail

/// Leaves what it writes as it is.
class field_writer {
 public:
  static constexpr bool reads = false;

  explicit field_writer(byte_writer& out) noexcept : out_{&out} {}

  template <class... Fields>
  void operator()(Fields&&... fields) {
    (one(fields), ...);
  }
  /// Of what was read: whether it can be.
  void must(bool) const noexcept {}

 private:
  template <class T>
  void one(T& field) {
    using integer = detail::integer_of<T>;
    if constexpr (std::floating_point<T>) {
      out_->put(std::bit_cast<integer>(field));
    } else if constexpr (!std::is_void_v<integer>) {
      out_->put(static_cast<integer>(field));
    } else if constexpr (requires { field.put(*out_); }) {
      field.put(*out_);
    } else {
      field.fields(*this);
    }
  }

  byte_writer* out_;
};

class field_reader {
 public:
  static constexpr bool reads = true;

  explicit field_reader(byte_reader& in) noexcept : in_{&in} {}

  template <class... Fields>
  void operator()(Fields&&... fields) {
    (one(fields), ...);
  }
  void must(bool holds) const noexcept {
    if (!holds) in_->refuse();
  }

 private:
  template <class T>
  void one(T& field) {
    using integer = detail::integer_of<T>;
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = in_->get<std::uint8_t>();
      field = byte == 1;
      must(byte <= 1);
    } else if constexpr (std::floating_point<T>) {
      field = std::bit_cast<T>(in_->get<integer>());
      must(std::isfinite(field));
    } else if constexpr (!std::is_void_v<integer>) {
      field = static_cast<T>(in_->get<integer>());
    } else if constexpr (requires { field.get(*in_); }) {
      field.get(*in_);
    } else {
      field.fields(*this);
    }
  }

  byte_reader* in_;
};

/// Whether a message asks for what both sides know.
template <class Message, class Wire, class... Context>
concept ListedWith = requires(Message& m, Wire& wire, const Context&... context) {
  m.fields(wire, context...);
};

/// `context` is for those that ask for it.
template <class Message, class Wire, class... Context>
void list_fields(Message& m, Wire& wire, const Context&... context) {
  if constexpr (ListedWith<Message, Wire, Context...>) {
    m.fields(wire, context...);
  } else {
    m.fields(wire);
  }
}

template <class Message, class... Context>
void put_fields(byte_writer& out, const Message& m, const Context&... context) {
  field_writer wire{out};
  list_fields(const_cast<Message&>(m), wire, context...);  // a writer only reads it
}

template <class Message, class... Context>
void get_fields(byte_reader& in, Message& m, const Context&... context) {
  field_reader wire{in};
  list_fields(m, wire, context...);
}

template <class Message>
[[nodiscard]] std::vector<std::byte> encode_fields(const Message& m) {
  byte_writer out;
  put_fields(out, m);
  return std::move(out).take();
}

/// `what` names it in an error: errc::corrupt or errc::too_large.
template <class Message>
[[nodiscard]] result<Message> decode_fields(std::span<const std::byte> bytes, std::string_view what) {
  byte_reader in{bytes};
  Message m;
  get_fields(in, m);
  CAUSEWAY_TRY(in.finish(what));
  return m;
}

// ---- fields with a limit -----------------------------------------------------------------------------------------------

/// An integer or an enum below `limit`.
template <class T>
struct below {
  T& value;
  std::uint64_t limit;

  below(T& field, std::uint64_t bound) noexcept : value{field}, limit{bound} {}
  void put(byte_writer& out) const { field_writer{out}(value); }
  void get(byte_reader& in) const {
    field_reader{in}(value);
    if (static_cast<std::uint64_t>(value) >= limit) in.refuse();
  }
};

/// Printable text of at most `limit` bytes, as byte_reader::get_text.
struct text {
  std::string& value;
  std::size_t limit;

  void put(byte_writer& out) const { out.put_text(value); }
  void get(byte_reader& in) const { value = in.get_text(limit); }
};

namespace detail {
struct one_field {
  void operator()(auto& wire, auto& element) const { wire(element); }
};
}  // namespace detail

/// At most `most` elements behind their number, a u32. `each(wire, element)` lists the fields of one.
template <class T, class Each = detail::one_field>
struct list {
  std::vector<T>& values;
  std::size_t most;
  Each each;

  list(std::vector<T>& elements, std::size_t bound, Each fields = {}) : values{elements}, most{bound}, each{fields} {}
  void put(byte_writer& out) const {
    out.put(static_cast<std::uint32_t>(values.size()));
    field_writer wire{out};
    for (T& v : values) each(wire, v);
  }
  void get(byte_reader& in) const {
    const std::size_t count = in.get<std::uint32_t>();
    if (count > most || count > in.remaining()) in.refuse();
    values.clear();
    field_reader wire{in};
    for (std::size_t i = 0; i < count && in.ok(); ++i) each(wire, values.emplace_back());
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FIELDS_HPP

// ---- causeway/net/asio_meeting.hpp ----
#ifndef CAUSEWAY_NET_ASIO_MEETING_HPP
#define CAUSEWAY_NET_ASIO_MEETING_HPP

// What two peers of a fabric tell each other on a new connection, and which connection becomes their link. Both say who
// they are. Then the peer with the smaller id decides alone, so that two who dial each other at once cannot decide
// differently: the other one says which connection it had last and whether that still stands; the smaller one takes the new
// connection, under a number that only grows, or declines it.

#include <set>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline constexpr std::uint32_t most_data_streams = 64;

/// The body of `meet`.
struct introduction {
  peer_id id = 0;
  std::uint64_t incarnation = 0;  ///< tells a restarted program from its predecessor
  std::uint64_t nonce = 0;        ///< of this connection; the other side repeats it, so that a recording is of no use
  std::uint32_t streams = 1;      ///< for data; the smaller wish counts
  std::uint32_t chunk = 0;        ///< bytes in a chunk of what it sends
  std::string host{};             ///< where it listens; empty: wherever it seems to be
  std::uint16_t port = 0;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<introduction> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(id, incarnation, nonce, streams, chunk, text{host, 255}, port); }
};

/// The body of `want`: what the peer with the larger id knows of earlier connections.
struct wish {
  std::uint64_t nonce = 0;  ///< of the other side's introduction
  std::uint64_t last = 0;   ///< number of the last connection that was taken; 0: none of this incarnation
  std::uint8_t alive = 0;   ///< that one still stands, as far as it knows

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<wish> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(nonce, last, alive); }
};

/// The body of `take`: the answer to a wish.
struct decision {
  std::uint64_t nonce = 0;   ///< of the other side's introduction
  std::uint64_t serial = 0;  ///< the number of the link from now on; 0: we have another connection

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<decision> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(nonce, serial); }
};

/// One link among all that there ever were with a peer.
struct link_key {
  peer_id id = 0;                 ///< the other side
  std::uint64_t incarnation = 0;  ///< of the other side
  std::uint64_t serial = 0;

  void fields(auto& wire) { wire(id, incarnation, serial); }
  friend bool operator==(const link_key&, const link_key&) = default;
};

/// The body of `stream`: to which link a connection belongs. The key names the sender.
struct stream_request {
  link_key key;
  std::uint32_t index = 0;  ///< from 0; smaller than the number agreed on

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<stream_request> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(key, index); }
};

/// What the peer with the smaller id knows of its link to the other: for `may_replace`.
struct standing {
  bool alive = false;             ///< a connection stands, or one was taken just now
  std::uint64_t incarnation = 0;  ///< of the other side, on that connection
  std::uint64_t serial = 0;
};

/// Whether a new connection takes the place of what stands. It does not where the other side has not heard yet that a
/// connection was taken (both dialled at once), or still has it. It does where the other side has lost it, or is a new
/// program.
CAUSEWAY_DECL bool may_replace(const standing& ours, std::uint64_t their_incarnation, const wish& theirs) noexcept;

// Everybody that a fabric has met, and which connection with each counts. Pure bookkeeping, without sockets: the fabric
// says whether the link of a peer is alive.

inline std::string name_of(peer_id id) { return "peer " + std::to_string(id); }

class roster {
 public:
  /// A peer that we met. Its number is that of its link.
  struct place {
    peer_id id = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t serial = 0;  ///< of its last connection
    std::string address;
    std::set<std::string> aliases;   ///< addresses that we dialled and found it at
    std::uint64_t connected_at = 0;  ///< when its last connection was made, counted in connections
    std::uint32_t streams = 1;       ///< for data
    std::uint64_t streams_seen = 0;  ///< one bit for each
    bool told = false;               ///< on_up was the last that was told of it
  };

  CAUSEWAY_DECL roster(peer_id self, std::uint64_t incarnation, std::size_t most_peers);

  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  place& operator[](peer_index peer) { return places_[peer]; }
  const place& operator[](peer_index peer) const { return places_[peer]; }

  CAUSEWAY_DECL [[nodiscard]] std::optional<peer_index> find(peer_id id) const;

  /// Why we do not talk to this peer; null if we do. `alive(peer)`: its link stands.
  template <class Alive>
  [[nodiscard]] std::optional<error> objection(const introduction& them, Alive alive) const {
    if (them.id == self_ && them.incarnation == incarnation_) {
      return fail(errc::invalid_argument, "", "that is this peer itself");
    }
    if (them.id == self_) {
      return fail(errc::invalid_argument, "",
                  "two peers have the id " + std::to_string(self_) + "; each needs its own folder, and with it its own id");
    }
    if (!find(them.id) && places_.size() >= most_peers_ && !longest_gone(alive)) {
      return fail(errc::too_large, "", "this peer has as many connections as it may have; try another one");
    }
    return std::nullopt;
  }

  /// What a peer with a smaller id wants to know.
  CAUSEWAY_DECL [[nodiscard]] wish wish_for(const introduction& them, bool alive) const;

  /// The number of a new connection with a peer with a larger id, or 0 if another one counts. One that was chosen counts
  /// until it is claimed or given back.
  CAUSEWAY_DECL std::uint64_t choose(const introduction& them, const wish& theirs, bool alive);

  CAUSEWAY_DECL void give_back(peer_id id, std::uint64_t serial);

  /// A connection stands; whether it counts. Of those that we chose only the last does.
  CAUSEWAY_DECL bool claim(peer_id id, std::uint64_t serial);

  /// The place of a peer; if it has none a new one, or that of whoever is gone the longest. Null when all are taken.
  template <class Alive>
  std::optional<peer_index> place_for(peer_id id, Alive alive) {
    if (const auto known = find(id)) return known;
    auto peer = static_cast<peer_index>(places_.size());
    if (places_.size() >= most_peers_) {
      const auto free = longest_gone(alive);
      if (!free) return std::nullopt;
      peer = *free;
      numbers_.erase(places_[peer].id);
      places_[peer] = {};
    } else {
      places_.emplace_back();
    }
    numbers_[id] = peer;
    places_[peer].id = id;
    return peer;
  }

  /// A connection became the link of a place.
  CAUSEWAY_DECL void connected(peer_index peer, const introduction& us, const introduction& them, std::uint64_t serial,
                               const std::string& dialled);

  /// The place whose link lacks this stream.
  CAUSEWAY_DECL [[nodiscard]] std::optional<peer_index> lacking(const stream_request& which) const;

 private:
  static constexpr std::size_t most_aliases = 16;

  template <class Alive>
  [[nodiscard]] std::optional<peer_index> longest_gone(Alive alive) const {
    std::optional<peer_index> oldest;
    for (peer_index p = 0; p < places_.size(); ++p) {
      if (!alive(p) && (!oldest || places_[p].connected_at < places_[*oldest].connected_at)) oldest = p;
    }
    return oldest;
  }

  peer_id self_;
  std::uint64_t incarnation_;
  std::size_t most_peers_;
  std::vector<place> places_;  // by link
  std::map<peer_id, peer_index> numbers_;
  std::map<peer_id, standing> choices_;  // connections that we chose and that are about to be taken
  std::uint64_t last_serial_ = 0;
  std::uint64_t connections_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_MEETING_HPP

// ---- causeway/net/impl/asio_meeting.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::vector<std::byte> introduction::encode() const { return encode_fields(*this); }

CAUSEWAY_DECL result<introduction> introduction::decode(std::span<const std::byte> bytes) {
  CAUSEWAY_ASSIGN(introduction who, decode_fields<introduction>(bytes, "introduction"));
  const bool fits = who.chunk >= min_chunk_bytes && who.chunk <= max_chunk_bytes && who.streams != 0 &&
                    who.streams <= most_data_streams && who.port != 0;
  if (who.id == 0 || !fits) return fail(errc::protocol, "introduction", "it makes no sense");
  return who;
}

CAUSEWAY_DECL std::vector<std::byte> wish::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<wish> wish::decode(std::span<const std::byte> bytes) { return decode_fields<wish>(bytes, "wish"); }

CAUSEWAY_DECL std::vector<std::byte> decision::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<decision> decision::decode(std::span<const std::byte> bytes) {
  return decode_fields<decision>(bytes, "decision");
}

CAUSEWAY_DECL std::vector<std::byte> stream_request::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<stream_request> stream_request::decode(std::span<const std::byte> bytes) {
  return decode_fields<stream_request>(bytes, "stream request");
}

CAUSEWAY_DECL bool may_replace(const standing& ours, std::uint64_t their_incarnation, const wish& theirs) noexcept {
  if (!ours.alive || ours.incarnation != their_incarnation) return true;
  return theirs.last == ours.serial && theirs.alive == 0;
}

CAUSEWAY_DECL roster::roster(peer_id self, std::uint64_t incarnation, std::size_t most_peers)
    : self_{self}, incarnation_{incarnation}, most_peers_{most_peers} {}

CAUSEWAY_DECL std::optional<peer_index> roster::find(peer_id id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? std::nullopt : std::optional{found->second};
}

CAUSEWAY_DECL wish roster::wish_for(const introduction& them, bool alive) const {
  const auto peer = find(them.id);
  if (!peer || places_[*peer].incarnation != them.incarnation) return {};
  return {.last = places_[*peer].serial, .alive = alive ? std::uint8_t{1} : std::uint8_t{0}};
}

CAUSEWAY_DECL std::uint64_t roster::choose(const introduction& them, const wish& theirs, bool alive) {
  standing ours;
  if (const auto made = choices_.find(them.id); made != choices_.end()) {
    ours = made->second;
  } else if (const auto peer = find(them.id)) {
    ours = {alive, places_[*peer].incarnation, places_[*peer].serial};
  }
  if (!may_replace(ours, them.incarnation, theirs)) return 0;
  choices_[them.id] = {true, them.incarnation, ++last_serial_};
  return last_serial_;
}

CAUSEWAY_DECL void roster::give_back(peer_id id, std::uint64_t serial) {
  const auto made = choices_.find(id);
  if (made != choices_.end() && made->second.serial == serial) choices_.erase(made);
}

CAUSEWAY_DECL bool roster::claim(peer_id id, std::uint64_t serial) {
  if (id < self_) return true;
  const auto made = choices_.find(id);
  if (made == choices_.end() || made->second.serial != serial) return false;
  choices_.erase(made);
  return true;
}

CAUSEWAY_DECL void roster::connected(peer_index peer, const introduction& us, const introduction& them,
                                     std::uint64_t serial, const std::string& dialled) {
  place& p = places_[peer];
  if (p.incarnation != them.incarnation) p.aliases.clear();
  if (!dialled.empty() && p.aliases.size() < most_aliases) p.aliases.insert(dialled);
  p.incarnation = them.incarnation;
  p.connected_at = ++connections_;
  p.serial = serial;
  p.address = endpoint{them.host, them.port}.text();
  p.streams = std::min(us.streams, them.streams);
  p.streams_seen = 0;
}

CAUSEWAY_DECL std::optional<peer_index> roster::lacking(const stream_request& which) const {
  const auto peer = find(which.key.id);
  if (!peer) return std::nullopt;
  const place& p = places_[*peer];
  const bool fits = which.key == link_key{p.id, p.incarnation, p.serial} && which.index < p.streams;
  return fits && (p.streams_seen >> which.index & 1U) == 0 ? peer : std::nullopt;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEETING_IPP
#endif

// ---- causeway/net/half_open.hpp ----
#ifndef CAUSEWAY_NET_HALF_OPEN_HPP
#define CAUSEWAY_NET_HALF_OPEN_HPP

// Connections of strangers, from the moment they are accepted until they become something or go. There is room for a fixed
// number of them. When it is used up a newcomer is let in all the same and another one goes: of those that have not said
// who they are, the oldest of the address that holds the most. So a flood pushes itself out and not the peer that dials in
// the middle of it. Pure bookkeeping without sockets.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// `Key` names a connection; it is copied and compared. Not thread-safe: its owner locks.
template <class Key>
class half_open {
 public:
  explicit half_open(std::size_t most) : most_{std::max<std::size_t>(most, 1)} {}

  /// A connection from `source` came. Whom to send away for it, if there is no room. O(n log n) in a flood, else O(1).
  std::optional<Key> enter(Key key, std::string source) {
    std::optional<Key> goes;
    if (entries_.size() >= most_) goes = expel();
    entries_.push_back({std::move(key), std::move(source)});
    return goes;
  }

  /// It has said who it is, in our words: it goes only when nobody silent is left.
  void introduce(const Key& key) {
    for (entry& e : entries_) {
      if (e.key == key) e.introduced = true;
    }
  }

  /// It is a stranger no more, or gone.
  void leave(const Key& key) {
    std::erase_if(entries_, [&](const entry& e) { return e.key == key; });
  }

  /// Takes out the one that is to go first. Null when there is nobody.
  std::optional<Key> expel() {
    if (entries_.empty()) return std::nullopt;
    const bool silent = std::any_of(entries_.begin(), entries_.end(), [](const entry& e) { return !e.introduced; });
    const auto may_go = [silent](const entry& e) { return !silent || !e.introduced; };
    std::map<std::string_view, std::size_t> held;
    for (const entry& e : entries_) held[e.source] += may_go(e) ? 1 : 0;
    std::size_t most = 0;
    for (const auto& [source, count] : held) most = std::max(most, count);
    const auto first =
        std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return may_go(e) && held[e.source] == most; });
    Key key = std::move(first->key);
    entries_.erase(first);
    return key;
  }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct entry {
    Key key;
    std::string source;
    bool introduced = false;
  };

  std::size_t most_;
  std::vector<entry> entries_;  // oldest first
};

// What is written about connections that were refused or dropped before they became a link. Anybody can cause such a line,
// as often as he likes; so only a few are written in a while, the others are counted, and the count is told.

/// Not thread-safe: its owner locks.
class stranger_log {
 public:
  static constexpr std::size_t lines = 5;  ///< in full, every `period`
  static constexpr std::chrono::seconds period{10};

  CAUSEWAY_DECL explicit stranger_log(log_sink sink);

  /// Writes the line, or counts it.
  CAUSEWAY_DECL void say(time_point now, std::string line);

  /// Tells how many were counted, when the period is over. Call it once in a while.
  CAUSEWAY_DECL void flush(time_point now);

 private:
  log_sink sink_;
  time_point since_;
  std::size_t said_ = 0;
  std::uint64_t counted_ = 0;
  std::string last_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_HALF_OPEN_HPP

// ---- causeway/net/impl/half_open.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_HALF_OPEN_IPP
#define CAUSEWAY_NET_IMPL_HALF_OPEN_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL stranger_log::stranger_log(log_sink sink) : sink_{std::move(sink)} {}

CAUSEWAY_DECL void stranger_log::say(time_point now, std::string line) {
  flush(now);
  if (said_ == 0) since_ = now;
  if (said_ < lines) {
    ++said_;
    return sink_(severity::warning, line);
  }
  ++counted_;
  last_ = std::move(line);
}

CAUSEWAY_DECL void stranger_log::flush(time_point now) {
  if (said_ == 0 || now - since_ < duration{period}) return;
  if (counted_ != 0) {
    sink_(severity::warning, "turned away " + std::to_string(counted_) + " more connections in " +
                                 std::to_string(period.count()) + " s; the last: " + last_);
  }
  said_ = 0;
  counted_ = 0;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_HALF_OPEN_IPP
#endif

// ---- causeway/net/side_thread.hpp ----
#ifndef CAUSEWAY_NET_SIDE_THREAD_HPP
#define CAUSEWAY_NET_SIDE_THREAD_HPP

// One thread for work that may block for seconds, such as fsync, so that nobody who serves the network has to wait for it.

#include <condition_variable>
#include <mutex>
#include <thread>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Thread-safe, except that the destructor must be the last call. The thread starts with the first work.
class side_thread {
 public:
  side_thread() = default;
  side_thread(const side_thread&) = delete;
  side_thread& operator=(const side_thread&) = delete;

  /// All that was pushed is done first.
  ~side_thread();

  /// Runs later, after all that was pushed before. Where no thread can be started, at once.
  CAUSEWAY_DECL void push(std::function<void()> work);

  /// Blocks until all that was pushed is done. Not from inside of work.
  CAUSEWAY_DECL void wait_idle();

 private:
  CAUSEWAY_DECL [[nodiscard]] bool has_thread();

  CAUSEWAY_DECL void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_SIDE_THREAD_HPP

// ---- causeway/net/impl/side_thread.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_SIDE_THREAD_IPP
#define CAUSEWAY_NET_IMPL_SIDE_THREAD_IPP

#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_INLINE side_thread::~side_thread() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

CAUSEWAY_DECL void side_thread::push(std::function<void()> work) {
  std::unique_lock lock{mutex_};
  if (!has_thread()) {
    lock.unlock();
    return work();
  }
  work_.push_back(std::move(work));
  changed_.notify_all();
}

CAUSEWAY_DECL void side_thread::wait_idle() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
}

CAUSEWAY_DECL bool side_thread::has_thread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

CAUSEWAY_DECL void side_thread::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> next = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    next();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_SIDE_THREAD_IPP
#endif

// ---- causeway/net/asio_memory_stream.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_MEMORY_STREAM_HPP
#define CAUSEWAY_NET_ASIO_MEMORY_STREAM_HPP

// What a stream of a link is made of once it has left TCP: two rings in shared memory, and a Unix socket that wakes whoever
// sleeps and ends with the other process. And how two processes come to have them in common: one listens, the other
// connects and hands the memory over. Nothing here waits. docs/design/shared_memory.md.

#include <asio/local/stream_protocol.hpp>

#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of a ring. Large enough that a writer is far ahead before it sleeps, small enough to stay in the cache.
inline constexpr std::size_t shared_ring_bytes = std::size_t{1} << 20U;

/// Messages of this length are worth moving a stream for.
inline constexpr std::size_t shared_from_bytes = std::size_t{64} << 10U;

/// Reads and writes as a non-blocking socket does: what cannot move now gives would_block, the end gives eof.
class memory_stream {
 public:
  using wake_socket = asio::basic_stream_socket<asio::local::stream_protocol, tcp::executor>;

  CAUSEWAY_DECL memory_stream(tcp::executor executor, shared_rings rings, owned_descriptor socket);

  CAUSEWAY_DECL std::size_t send(const std::array<asio::const_buffer, 2>& from, std::error_code& failure);
  CAUSEWAY_DECL std::size_t receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure);

  /// From now on the other side wakes us. False when there is something to do already.
  bool sleep_until_readable() noexcept { return !gone_ && rings_.sleep_until_readable(); }
  bool sleep_until_writable() noexcept { return !gone_ && rings_.sleep_until_writable(); }

  /// Takes in what woke us, and notices that the other side is gone.
  CAUSEWAY_DECL void hear();
  [[nodiscard]] bool gone() const noexcept { return gone_; }

  wake_socket& socket() noexcept { return socket_; }

 private:
  CAUSEWAY_DECL void wake();

  shared_rings rings_;
  wake_socket socket_;
  bool gone_ = false;
};

/// What the side that offers holds until the other one has come: a Unix socket that listens at a name nobody else has.
class memory_offer {
 public:
  CAUSEWAY_DECL static result<memory_offer> make();

  /// Makes a memory and hands it to who offered. Fails where that is no process of this user on this machine and in this
  /// network namespace, or the machine has no memory left for it.
  CAUSEWAY_DECL static result<std::unique_ptr<memory_stream>> take(std::uint64_t number, tcp::executor executor);

  /// Tells the other side which name it is.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// The memory that the other side handed over, which it does before it says so: errc::not_found where none came.
  CAUSEWAY_DECL result<std::unique_ptr<memory_stream>> accept(tcp::executor executor);

 private:
  memory_offer(owned_descriptor listening, std::uint64_t number) noexcept
      : listening_{std::move(listening)}, number_{number} {}

  CAUSEWAY_DECL static std::uint64_t fresh_number();
  CAUSEWAY_DECL static owned_descriptor make_socket();
  /// Calls ::bind or ::connect with the name of a number.
  template <class Call>
  static bool with_name(std::uint64_t number, Call call);
  CAUSEWAY_DECL static bool is_ours(const owned_descriptor& socket);
  CAUSEWAY_DECL static bool hand_over(const owned_descriptor& memory, const owned_descriptor& socket);
  CAUSEWAY_DECL static owned_descriptor take_over(const owned_descriptor& socket);

  owned_descriptor listening_;
  std::uint64_t number_;
};

/// Whether both ends of a connection seem to be on this machine. A tunnel seems so, too.
CAUSEWAY_DECL bool is_near(const tcp::socket& socket);

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_MEMORY_STREAM_HPP
#endif

// ---- causeway/net/asio_stream.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_STREAM_HPP
#define CAUSEWAY_NET_ASIO_STREAM_HPP

// The state of one stream of a link, a TCP connection or shared memory: how far it is in reading and in writing. And what
// all links of a transport share. The link drives it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// A control message on its way to its reader.
struct control_message {
  std::unique_ptr<std::byte[]> bytes;  ///< left uninitialised until it arrives, so that memory follows what came
  std::size_t length = 0;
  [[nodiscard]] std::span<const std::byte> view() const { return {bytes.get(), length}; }
};

/// Who wants to hear of its links. Called with the context's lock held, in the middle of a link's work: it writes down what
/// it heard and touches no link.
class link_owner {
 public:
  virtual ~link_owner() = default;
  virtual void hear_lost(peer_index peer, const error& why) = 0;
  virtual void hear_control(peer_index peer, control_message message) = 0;
};

/// What all links of one transport share. `mutex` guards it and every link.
struct link_context {
  std::mutex mutex;
  operation_table operations;
  traffic stats;
  transport_options options;
  std::uint64_t run_id = 0;
  peer_index self = 0;  ///< what frames name as their sender
  steady_clock clock;
  link_owner* owner = nullptr;  ///< null: control messages are not for us
  memory_budget early;          ///< messages that came before their receive
  memory_budget unsent;         ///< control messages
  std::vector<std::byte> scrap = std::vector<std::byte>(std::size_t{64} << 10U);  ///< for bytes that nobody wants
};

/// What ends a link that there is no memory for.
CAUSEWAY_DECL error out_of_memory(std::string name);

/// The chunk length of a link of `streams` streams; both sides compute the same.
CAUSEWAY_DECL std::size_t chunk_for(std::size_t wanted, std::size_t streams) noexcept;

/// What a stream is writing: a header, perhaps with a digest behind it, then bytes of a send or of a control message.
struct outgoing_frame {
  std::array<std::byte, header_bytes + digest_bytes> header;
  std::size_t header_length = header_bytes;
  std::size_t header_left = 0;
  const std::byte* body = nullptr;
  std::size_t body_left = 0;
  std::size_t body_length = 0;
  frame_kind kind = frame_kind::data;
  slot_index slot = no_slot;
  std::vector<std::byte> own;  ///< a control message, or the rest of a chunk whose send was cancelled

  [[nodiscard]] bool busy() const { return header_left + body_left != 0; }
  CAUSEWAY_DECL [[nodiscard]] std::array<asio::const_buffer, 2> buffers() const;
  /// Starts a frame of this header and this content.
  CAUSEWAY_DECL void begin(frame_header h, std::span<const std::byte> content, bool digest);
  /// The owner of the bytes wants them back.
  CAUSEWAY_DECL void rescue();
  CAUSEWAY_DECL void consume(std::size_t n);
};

/// One stream of a link, and how far it is in reading and writing. Each direction starts over TCP and may move to shared
/// memory, once, between two frames.
struct stream {
  static constexpr std::size_t staging_bytes = std::size_t{16} << 10U;

  CAUSEWAY_DECL explicit stream(tcp::socket s);

  /// One non-blocking attempt, wherever the direction is now.
  CAUSEWAY_DECL std::size_t send(std::error_code& failure);
  CAUSEWAY_DECL std::size_t receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure);

  CAUSEWAY_DECL void close();
  tcp::socket socket;                     ///< closed once both directions have moved
  std::optional<memory_offer> offer;      ///< ours, not answered yet
  std::unique_ptr<memory_stream> memory;  ///< that the other side has, too
  bool memory_asked = false;              ///< an offer was made; there is no second one
  bool reads_memory = false;
  bool writes_memory = false;
  std::size_t wakes = 0;  ///< handlers of `memory` that are still to come
  bool open = true;
  bool read_armed = false;
  bool write_armed = false;
  bool heard_goodbye = false;
  bool goodbye_due = false;   ///< it follows when the control messages are out
  bool said_goodbye = false;  ///< nothing is written any more
  bool wrote_since_tick = false;
  time_point last_heard;
  duration silent{0};

  std::vector<std::byte> staging;  ///< headers, small chunks, and the beginnings of large ones
  std::size_t begin = 0;
  std::size_t end = 0;
  bool in_chunk = false;
  chunk_target spot;
  std::size_t chunk_left = 0;
  std::optional<frame_header> parked;   ///< a chunk that the inbox has no room for yet
  std::optional<std::uint64_t> digest;  ///< of the chunk that is being read
  control_message control;              ///< being read
  frame_kind control_kind = frame_kind::control;

  outgoing_frame out;
  std::deque<frame_header> notices;  ///< frames without content that go before the next chunk
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_STREAM_HPP
#endif

// ---- causeway/net/asio_frame_reader.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_FRAME_READER_HPP
#define CAUSEWAY_NET_ASIO_FRAME_READER_HPP

// Takes what the streams of a link bring apart: headers, and content, which goes where the inbox says without a copy. What
// a frame means is the link's business. Pure bookkeeping: the link reads.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one link. Not thread-safe: the transport locks. All that it is given must outlive it. Its errors mean that the other
/// side broke the protocol.
class frame_reader {
 public:
  /// `sender`: what the other side's frames name as their sender.
  frame_reader(link_context& shared, std::uint32_t sender, inbox& in) : shared_{&shared}, sender_{sender}, inbox_{&in} {}

  /// From now on content is read and dropped.
  void drop_all() noexcept { drops_ = true; }
  [[nodiscard]] bool drops() const noexcept { return drops_; }

  /// Where the next bytes of a stream go: first the rest of the content's place, then room for what follows it.
  CAUSEWAY_DECL std::array<asio::mutable_buffer, 2> places(stream& s) const;

  /// The next header in the staging area; none if it is not there whole yet.
  CAUSEWAY_DECL result<std::optional<frame_header>> next_header(stream& s) const;

  /// A chunk of a message comes. False: there is no room for it yet, and the stream must not be read on.
  CAUSEWAY_DECL result<bool> begin_chunk(stream& s, const frame_header& h) const;

  /// A control message comes, or the reason why the other side ends the link.
  CAUSEWAY_DECL result<void> begin_control(stream& s, const frame_header& h);

  /// Content in the staging area goes to its place. How much.
  CAUSEWAY_DECL std::size_t take_staged(stream& s) const;

  /// So much more content is in its place. A control message that is whole with it.
  CAUSEWAY_DECL result<std::optional<control_message>> advance(stream& s, std::size_t n) const;

 private:
  /// Where the content that a stream is reading starts; null when it is dropped. Asked anew before each piece, because
  /// what happens on another stream, or the caller, may take the place away.
  CAUSEWAY_DECL [[nodiscard]] std::byte* place(const stream& s) const;

  /// Behind a large chunk often comes another: take in its header only, and let its bytes go where they belong.
  CAUSEWAY_DECL static std::size_t room_behind_chunk(const stream& s);

  CAUSEWAY_DECL static void begin_content(stream& s, const chunk_target& spot, std::size_t length);

  link_context* shared_;
  std::uint32_t sender_;
  inbox* inbox_;
  std::uint64_t next_control_ = 0;
  bool drops_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_FRAME_READER_HPP
#endif

// ---- causeway/net/asio_outbox.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_OUTBOX_HPP
#define CAUSEWAY_NET_ASIO_OUTBOX_HPP

// What waits to be written to one peer: sends, chunk by chunk, and control messages before and behind them. Streams come
// and take the next frame; a stream that is quicker takes more chunks. Pure bookkeeping: the link writes.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Not thread-safe: the transport locks.
class outbox {
 public:
  CAUSEWAY_DECL outbox(link_context& shared, std::size_t chunk);
  ~outbox() { count_control(0); }
  outbox(const outbox&) = delete;
  outbox& operator=(const outbox&) = delete;

  CAUSEWAY_DECL void send(slot_index slot);

  /// Queues a control message. False when the peer has not taken far too many already.
  CAUSEWAY_DECL bool post(frame_kind kind, std::vector<std::byte> bytes, bool bulk);

  /// What a stream carries.
  struct share {
    bool control;      ///< messages, urgent ones and bulk
    bool chunks;       ///< of sends
    bool data_stalls;  ///< of the other streams, so that bulk need not wait for it
  };

  /// Puts the stream's next frame into `s.out`: notices go first, then urgent messages, chunks, and bulk; a goodbye is the
  /// last. False: it has none.
  CAUSEWAY_DECL bool next_frame(stream& s, share of);

  /// A frame is out. Ends its send when that was the last of it.
  CAUSEWAY_DECL void written(outgoing_frame& out);

  /// Gives a send up. The streams must rescue what they hold of it. What to tell the peer, if it has seen a part.
  CAUSEWAY_DECL std::optional<frame_header> cancel(slot_index slot);

  /// Ends all sends that no stream has begun the last chunk of.
  CAUSEWAY_DECL void fail_sends(const error& why);

  CAUSEWAY_DECL void drop_bulk();

  CAUSEWAY_DECL void drop_control();

  [[nodiscard]] bool has_sends() const noexcept { return !sends_.empty(); }
  [[nodiscard]] bool bulk_may_go() const noexcept { return sends_.empty() && !bulk_.empty(); }

  CAUSEWAY_DECL [[nodiscard]] frame_header header(frame_kind kind) const;

 private:
  struct queued {
    frame_kind kind;
    std::vector<std::byte> bytes;
  };

  CAUSEWAY_DECL void count_control(std::size_t bytes);

  // The next chunk of the oldest send.
  CAUSEWAY_DECL bool take_chunk(outgoing_frame& out);

  CAUSEWAY_DECL bool take_control(std::deque<queued>& from, outgoing_frame& out);

  link_context* shared_;
  std::size_t chunk_;
  std::deque<slot_index> sends_;  // with chunks that no stream took yet, oldest first
  std::deque<queued> urgent_;
  std::deque<queued> bulk_;
  std::size_t control_bytes_ = 0;  // of both
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_control_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_OUTBOX_HPP
#endif

// ---- causeway/net/asio_memory_move.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_MEMORY_MOVE_HPP
#define CAUSEWAY_NET_ASIO_MEMORY_MOVE_HPP

// How a stream between two processes of one machine moves to shared memory, each direction once, between two frames: one
// side offers, the other takes the offer or declines it, and what follows that word is in memory.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one link, which reads and writes. All that it is given must outlive it.
class memory_move {
 public:
  /// What the link is to do when it has heard of it.
  enum class next : std::uint8_t {
    nothing,
    write,  ///< there is something to say
    wake,   ///< the same, and memory that is to wake this side
  };

  memory_move(link_context& shared, std::uint32_t sender, std::string name, const outbox& out)
      : shared_{&shared}, sender_{sender}, name_{std::move(name)}, outbox_{&out} {}

  /// A message of this length was seen on a stream. The peer with the smaller number offers to move, once; whether it does
  /// now: then the offer waits to be written.
  CAUSEWAY_DECL bool consider(stream& s, std::uint64_t length) const;

  /// An offer, or the answer to ours. `closing`: nothing new is begun. An error: it was out of turn.
  CAUSEWAY_DECL result<next> hear(stream& s, const frame_header& h, bool closing) const;

  /// What this side writes from now on is in memory.
  CAUSEWAY_DECL void taken(stream& s) const;

 private:
  CAUSEWAY_DECL next answer(stream& s, std::uint64_t number, bool closing) const;

  // What the other side sends from now on is in memory.
  CAUSEWAY_DECL result<next> follow(stream& s) const;

  // Nobody needs TCP any more once both directions have moved.
  CAUSEWAY_DECL void leave_tcp(stream& s) const;

  link_context* shared_;
  std::uint32_t sender_;  ///< what the other side's frames name as their sender
  std::string name_;
  const outbox* outbox_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_MEMORY_MOVE_HPP
#endif

// ---- causeway/net/asio_stream_waits.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_STREAM_WAITS_HPP
#define CAUSEWAY_NET_ASIO_STREAM_WAITS_HPP

// Waits until a stream of a link can go on: over TCP by asio, in shared memory by the socket that wakes this side. The link
// does the work.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one link. What is waited for is told under the transport's lock, on its thread; waits begin under the lock, too. The
/// link and its streams outlive their waits (`link::at_rest`).
class stream_waits {
 public:
  using handler = std::function<void(stream&)>;

  /// `readable`, `writable`: called once for each wait that ends well.
  stream_waits(link_context& shared, handler readable, handler writable)
      : shared_{&shared}, readable_{std::move(readable)}, writable_{std::move(writable)} {}

  /// Until bytes may have come. Sets `read_armed` meanwhile.
  CAUSEWAY_DECL void to_read(stream& s) const;

  /// Until there may be room for more. Sets `write_armed` meanwhile.
  CAUSEWAY_DECL void to_write(stream& s) const;

  /// From now on the other side wakes this one when its memory has changed.
  CAUSEWAY_DECL void to_be_woken(stream& s) const;

 private:
  // Memory has changed already: looks at it when other sockets have had their turn.
  CAUSEWAY_DECL void look_again(stream& s) const;
  CAUSEWAY_DECL void look_into_memory(stream& s) const;

  link_context* shared_;
  handler readable_;
  handler writable_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_STREAM_WAITS_HPP
#endif

// ---- causeway/net/asio_link.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_LINK_HPP
#define CAUSEWAY_NET_ASIO_LINK_HPP

// The connection to one peer: one or more streams, the outbox and the inbox. Streams may be added while it runs; the first
// carries the control messages. A stream between two processes of one machine moves to shared memory when it has a large
// message to carry. When one ends, the link ends. All reads and writes are non-blocking calls made under the transport's
// lock when a stream is ready, never asynchronous operations on a caller's buffer. So once an operation is cancelled
// nothing can touch its buffer, and no byte is copied between stream and buffer.

#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Who is at the other end of a link, and in which pieces messages travel.
struct link_identity {
  peer_index peer = 0;       ///< our number for it
  std::uint32_t sender = 0;  ///< what its frames name as their sender
  std::string name;          ///< for messages
  std::size_t chunk = 0;     ///< our chunk length
  std::size_t their_chunk = 0;
  bool control_apart = false;  ///< the first stream carries no data, so that data never holds control messages up
};

class link {
 public:
  CAUSEWAY_DECL link(link_context& shared, link_identity who, std::vector<tcp::socket> sockets);

  // All members need the context's lock.

  CAUSEWAY_DECL void start_reading();

  /// One more stream; from now on it carries its share. After say_goodbye it only says so, too.
  CAUSEWAY_DECL void add_stream(tcp::socket socket);

  CAUSEWAY_DECL void send(slot_index slot);

  /// Sends a control message; see net/fabric.hpp.
  CAUSEWAY_DECL void post(std::vector<std::byte> message, bool bulk);

  CAUSEWAY_DECL void receive(slot_index slot);

  /// Gives an unfinished operation up; its buffer is free when this returns.
  CAUSEWAY_DECL void cancel(slot_index slot);

  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// The same, and drops and counts what still comes of earlier epochs.
  CAUSEWAY_DECL void refuse_before(std::uint32_t epoch);

  /// Once per heartbeat interval: says on every idle stream that we live, which also keeps routers from forgetting it, and
  /// notices a silent one.
  CAUSEWAY_DECL void tick(duration since_last_tick);

  /// Says goodbye and gives up what was not waited for. Buffers of such sends may be gone: their streams just end.
  CAUSEWAY_DECL void say_goodbye();

  /// Ends the link at once for us, and tells the other side why. The streams close when it has heard, or after a grace.
  CAUSEWAY_DECL void dismiss(const error& why);

  /// Ends the link with an error that every operation of it gets.
  CAUSEWAY_DECL void lose(error why);

  CAUSEWAY_DECL [[nodiscard]] bool over() const;
  [[nodiscard]] bool lost() const { return failure_.has_value(); }
  /// Nothing refers to this link any more: it may be destroyed.
  CAUSEWAY_DECL [[nodiscard]] bool at_rest() const;
  [[nodiscard]] const std::string& name() const { return who_.name; }
  CAUSEWAY_DECL [[nodiscard]] bool is_paused() const;
  [[nodiscard]] time_point last_heard() const { return last_heard_; }
  [[nodiscard]] std::size_t stream_count() const { return streams_.size() - (who_.control_apart ? 1 : 0); }

 private:
  static constexpr std::size_t turn_bytes = std::size_t{4} << 20U;  // moved before other sockets get their turn

  CAUSEWAY_DECL stream& take_socket(tcp::socket socket);

  /// Does the work of a handler. Without memory for it this link ends, not the process.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      for (const auto& s : streams_) s->close();
      for (const auto& s : streams_) s->control = {};
      lose(out_of_memory(who_.name));
    }
  }

  CAUSEWAY_DECL void look_after_streams(duration since_last_tick);

  CAUSEWAY_DECL void tick_stream(stream& s, duration since_last_tick);

  [[nodiscard]] bool is_first(const stream& s) const { return &s == streams_[0].get(); }

  // ---- writing

  CAUSEWAY_DECL void write_some(stream& s);

  CAUSEWAY_DECL bool next_frame(stream& s);

  CAUSEWAY_DECL void finish_frame(stream& s);

  CAUSEWAY_DECL void cancel_send(slot_index slot);

  CAUSEWAY_DECL void queue_goodbye(stream& s);

  CAUSEWAY_DECL void end_writing(stream& s);

  // ---- reading

  CAUSEWAY_DECL void read_some(stream& s);

  /// Handles what lies in the staging area. False when the stream must not be read on.
  CAUSEWAY_DECL bool parse_staged(stream& s);

  CAUSEWAY_DECL bool take_header(stream& s, const frame_header& h);

  CAUSEWAY_DECL bool begin_chunk(stream& s, frame_header h);

  /// A control message, or the reason why the other side ends the link.
  CAUSEWAY_DECL bool begin_control(stream& s, const frame_header& h);

  /// `n` more bytes are in their place. False when the stream must not be read on.
  CAUSEWAY_DECL bool advance_chunk(stream& s, std::size_t n);

  CAUSEWAY_DECL bool take_control(const stream& s, control_message message);

  CAUSEWAY_DECL void resume_parked();

  CAUSEWAY_DECL void note_heard(stream& s, std::size_t n);

  CAUSEWAY_DECL bool hear_goodbye(stream& s);

  CAUSEWAY_DECL void answer_goodbye(stream& s);

  // ---- shared memory

  /// An offer to move there, or the answer to ours.
  CAUSEWAY_DECL bool hear_memory(stream& s, const frame_header& h);

  // ---- ending

  /// The peer spoke nonsense: drops it. Always false.
  CAUSEWAY_DECL bool reject(error why);

  CAUSEWAY_DECL void lose_to(const std::error_code& failure);

  /// Everything that is under way ends with `why`.
  CAUSEWAY_DECL void fail_with(error why);

  /// After the grace we wait no longer for the other side to hear our last words.
  CAUSEWAY_DECL void end_farewell();

  CAUSEWAY_DECL static error closed_error();

  link_context* shared_;
  link_identity who_;
  std::vector<std::unique_ptr<stream>> streams_;
  outbox outbox_;
  inbox inbox_;
  frame_reader reader_;
  memory_move move_;
  stream_waits waits_;
  past_epochs past_;
  std::optional<error> failure_;
  time_point failed_at_;
  bool data_stalls_ = false;  // sends wait and no stream could write since the last tick: bulk need not wait for them
  time_point last_heard_;
  arrival_statistics gaps_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_LINK_HPP
#endif

// ---- causeway/net/asio_engine.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_ENGINE_HPP
#define CAUSEWAY_NET_ASIO_ENGINE_HPP

// What transports and fabrics over TCP have in common: links, operations on them, the event loop with its heartbeat, and
// one lock that guards all state. Who the peers are and how links come and go is for whoever derives from it.

#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

// Who runs the event loop. Whoever waits does the input and output: while the trainer's thread is inside `drive`, it runs
// the loop itself, so that a message costs no hand-over between threads; while it computes, a background thread takes over
// after a few milliseconds and keeps transfers and heartbeats going. Exactly one of the two runs the loop at a time, so
// handlers never run two at once; they take the lock for what they share with the trainer's calls.

/// A moment of causeway::steady_clock on the standard clock, at most an hour from `now` (longer waits are repeated).
CAUSEWAY_DECL std::chrono::steady_clock::time_point to_standard(time_point when, time_point now);

class event_loop {
 public:
  CAUSEWAY_DECL event_loop(std::unique_ptr<asio::io_context> io, std::mutex& mutex);
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  [[nodiscard]] asio::io_context& io() noexcept { return *io_; }

  /// Starts the background thread. Needs something in the loop that keeps it busy, such as a timer.
  CAUSEWAY_DECL void start();

  /// Runs the event loop, or lets the background thread run it, until `done` or the deadline. Needs and keeps the lock.
  template <class Done>
  bool drive(std::unique_lock<std::mutex>& lock, time_point deadline, Done done) {
    trainer_waits_ = true;
    bool finished = done();
    if (!finished && clock_.now() >= deadline) finished = look_once(lock, done);
    while (!finished && clock_.now() < deadline) {
      const auto until = to_standard(deadline, clock_.now());
      if (loop_taken_) {
        trainer_turn_.wait_until(lock, until);
      } else {
        run_unlocked(lock, [&] { io_->run_one_until(until); });
      }
      finished = done();
    }
    trainer_waits_ = false;
    ++trainer_turns_;
    return finished;
  }

  /// Makes a `drive` in progress ask again whether it is done. Needs the lock.
  CAUSEWAY_DECL void wake();

  /// Ends the background thread. Needs the lock, and gives it up.
  CAUSEWAY_DECL void stop(std::unique_lock<std::mutex>& lock);

  [[nodiscard]] bool stopping() const noexcept { return stopping_; }

 private:
  /// How long the trainer may stay away before the background thread takes the event loop over.
  static constexpr auto patience = std::chrono::milliseconds{2};

  template <class Turn>
  void run_unlocked(std::unique_lock<std::mutex>& lock, Turn turn) {
    loop_taken_ = true;
    lock.unlock();
    try {
      turn();
    } catch (const std::bad_alloc&) {  // of a handler: links and strangers have deadlines, so what it was at ends by itself
    }
    lock.lock();
    loop_taken_ = false;
  }

  /// What the sockets already hold counts, also when the deadline has passed: a wait with one in the past is a poll.
  template <class Done>
  bool look_once(std::unique_lock<std::mutex>& lock, Done done) {
    if (loop_taken_) return false;
    run_unlocked(lock, [&] { io_->poll(); });
    return done();
  }

  CAUSEWAY_DECL void run_background();

  std::unique_ptr<asio::io_context> io_;
  std::mutex* mutex_;
  steady_clock clock_;
  bool loop_taken_ = false;     // somebody is inside the event loop
  bool trainer_waits_ = false;  // the trainer's thread is inside drive
  bool stopping_ = false;
  std::uint64_t trainer_turns_ = 0;  // ends of drive: tells the background thread that the trainer was here lately
  std::condition_variable trainer_turn_;
  std::condition_variable background_turn_;
  std::thread background_;
};

class engine {
 public:
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  CAUSEWAY_DECL operation start(pending_operation what);

  CAUSEWAY_DECL result<std::size_t> wait(operation handle, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] bool done(operation handle) const;

  CAUSEWAY_DECL bool wait_any(std::span<const operation> handles, time_point deadline);

  CAUSEWAY_DECL void interrupt();

  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  CAUSEWAY_DECL [[nodiscard]] std::size_t streams(peer_index peer) const;

  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

 protected:
  /// `sender`: what our frames name as their sender.
  CAUSEWAY_DECL engine(std::unique_ptr<asio::io_context> io, std::uint64_t run_id, std::uint32_t sender,
                       transport_options options);
  ~engine() = default;

  /// Starts the heartbeat and the background thread. Needs the lock.
  CAUSEWAY_DECL void run();

  /// Says goodbye to everybody, waits up to the grace for theirs, and ends the background thread. Gives the lock up; after
  /// that nobody but the caller is here. False if it was called before.
  CAUSEWAY_DECL bool shut_down(std::unique_lock<std::mutex>& lock);

  /// Ends operations of epochs before `epoch`. Needs the lock.
  CAUSEWAY_DECL void end_epochs_before(std::uint32_t epoch);

  /// Once per heartbeat interval, with the lock held, after the links' ticks.
  virtual void tick(duration) {}

  // The loop comes before the links: their sockets must go before it does.
  mutable link_context shared_;
  event_loop loop_;
  std::vector<std::unique_ptr<link>> links_;
  past_epochs past_;
  bool closed_ = false;
  bool interrupted_ = false;

 private:
  CAUSEWAY_DECL [[nodiscard]] error epoch_over(peer_index peer) const;

  CAUSEWAY_DECL void time_out(slot_index slot);

  CAUSEWAY_DECL void arm_timer();

  CAUSEWAY_DECL static std::string tenths(double s);

  timer timer_;
  time_point last_tick_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_ENGINE_HPP
#endif

// ---- causeway/net/handshake_acceptor.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_HANDSHAKE_ACCEPTOR_HPP
#define CAUSEWAY_NET_HANDSHAKE_ACCEPTOR_HPP

// Accepts strangers for a fabric, dials addresses, and leads the handshake on a new connection up to the point where it
// becomes a link or a stream of one. Everything happens inside the event loop, one handler at a time; handlers
// take the fabric's lock. A stranger costs at most one connection and 4 KiB, and is shown out after ten seconds, or earlier
// where others want in.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Who decides what becomes of connections. Called with the lock held; calls nothing of the acceptor back.
class handshake_owner {
 public:
  virtual ~handshake_owner() = default;
  /// Ourselves, as far as it does not depend on the connection. `spare`: descriptors that connections may still take.
  virtual introduction introduce(const tcp::socket& to, std::size_t spare) = 0;
  /// Why we do not talk to this peer; null if we do.
  virtual std::optional<error> objection(const introduction& them) = 0;
  virtual bool is_connected(peer_id id, std::uint64_t incarnation) = 0;
  /// What we know of earlier connections, for a peer with a smaller id.
  virtual wish wish_for(const introduction& them) = 0;
  /// For a peer with a larger id: the number of the new link, or 0. A number must be taken or given back.
  virtual std::uint64_t choose(const introduction& them, const wish& theirs) = 0;
  virtual void give_back(const introduction& them, std::uint64_t serial) = 0;
  /// The connection is the link. `us`: what we said of ourselves. `dialled`: the address that we dialled, or empty.
  virtual void take(const introduction& us, const introduction& them, std::uint64_t serial, const std::string& dialled,
                    tcp::socket socket) = 0;
  virtual bool wants_stream(const stream_request& which) = 0;
  virtual void take_stream(const stream_request& which, tcp::socket socket) = 0;
  virtual void lose_stream(const stream_request& which, const error& why) = 0;
  virtual void unreachable(const std::string& address, const error& why) = 0;
};

class handshake_acceptor {
 public:
  CAUSEWAY_DECL handshake_acceptor(asio::io_context& io, std::mutex& mutex, std::unique_ptr<tcp::acceptor> acceptor,
                                   const handshake_options& options, handshake_owner& owner);
  handshake_acceptor(const handshake_acceptor&) = delete;
  handshake_acceptor& operator=(const handshake_acceptor&) = delete;

  // All members need the lock; all but `lock_up` are called inside the event loop.

  /// Starts to accept.
  void open() { accepting_->start(); }

  CAUSEWAY_DECL void dial(const std::string& address);

  /// Once in a while: tells how many strangers were turned away since.
  void tick() { turned_away_.flush(clock_.now()); }

  /// Makes one more stream of a link that stands. `which.key` names the other side; `ours` is what we call ourselves there.
  CAUSEWAY_DECL void dial_stream(const tcp::endpoint& at, const stream_request& which, const link_key& ours);

  /// Nobody is let in any more, but for streams of links that are up. The rest is `lock_up`'s.
  void shut() noexcept { over_ = true; }

  /// Ends everything. Only when nobody runs the event loop any more.
  CAUSEWAY_DECL void lock_up();

 private:
  /// A connection on its way to become a link or a stream.
  struct meeting {
    CAUSEWAY_DECL explicit meeting(asio::io_context& io);
    std::string dialled;  ///< what `dial` was given; empty for a stranger and for a stream
    endpoint target;      ///< whom we dial; port 0 for a stranger
    std::optional<stream_request> stream;
    link_key our_key;
    std::shared_ptr<dialer> dialling;
    conversation_ptr who;
    std::string source;
    timer deadline;
    introduction us;
    introduction them;
    std::uint64_t serial = 0;  ///< chosen by us and not taken yet
    bool over = false;
  };
  using meeting_ptr = std::shared_ptr<meeting>;
  using frame_body = std::span<const std::byte>;

  CAUSEWAY_DECL meeting_ptr start_meeting();

  // ---- strangers

  CAUSEWAY_DECL std::shared_ptr<accepting> make_accepting(std::unique_ptr<tcp::acceptor> acceptor);

  CAUSEWAY_DECL void meet_stranger(tcp::socket socket);

  /// One stranger goes. False when there is none.
  CAUSEWAY_DECL bool make_room();

  CAUSEWAY_DECL void send_away(const meeting_ptr& m);

  CAUSEWAY_DECL void hear_first(const meeting_ptr& m, const frame_header& h, frame_body body);

  /// It is no meeting any more.
  CAUSEWAY_DECL void inform(const meeting_ptr& m, frame_body body);

  CAUSEWAY_DECL void hear_stream_request(const meeting_ptr& m, frame_body body);

  // ---- dialling

  CAUSEWAY_DECL [[nodiscard]] bool is_dialling(const std::string& address) const;

  /// Starts what was asked for, as far as there is room.
  CAUSEWAY_DECL void dial_next();

  CAUSEWAY_DECL void call(const meeting_ptr& m, bool pause = false);

  CAUSEWAY_DECL void greet(const meeting_ptr& m, const conversation_ptr& who);

  CAUSEWAY_DECL void hear_meet(const meeting_ptr& m, const frame_header& h, frame_body body);

  CAUSEWAY_DECL void hear_stream_ok(const meeting_ptr& m, const frame_header& h, frame_body body);

  // ---- coming to an agreement

  /// Reads who they are. Why we do not want them, if we do not.
  CAUSEWAY_DECL std::optional<error> understand(const meeting_ptr& m, frame_body body);

  CAUSEWAY_DECL void say_meet(const meeting_ptr& m);

  CAUSEWAY_DECL void agree(const meeting_ptr& m);

  CAUSEWAY_DECL void hear_wish(const meeting_ptr& m, const frame_header& h, frame_body body);

  CAUSEWAY_DECL void hear_decision(const meeting_ptr& m, const frame_header& h, frame_body body);

  CAUSEWAY_DECL void hand_over(const meeting_ptr& m, std::uint64_t serial);

  CAUSEWAY_DECL void hand_over_stream(const meeting_ptr& m);

  // ---- one step of a conversation

  using step = void (handshake_acceptor::*)(const meeting_ptr&, const frame_header&, frame_body);

  // Once nobody is let in any more, streams that the other side may have already still come to their link, which says
  // goodbye on them: the other side waits for that on every stream.
  CAUSEWAY_DECL [[nodiscard]] bool goes_on(const meeting& m) const;

  CAUSEWAY_DECL void expect(const meeting_ptr& m, step next);

  CAUSEWAY_DECL void say(const meeting_ptr& m, frame_kind kind, frame_body body, const std::function<void()>& then = {});

  CAUSEWAY_DECL void watch(const meeting_ptr& m);

  // ---- endings

  CAUSEWAY_DECL void refuse(const meeting_ptr& m, const error& why);

  /// The connection broke. A stream may be dialled again.
  CAUSEWAY_DECL void lose(const meeting_ptr& m, const error& why);

  CAUSEWAY_DECL void call_again(const meeting_ptr& m);

  CAUSEWAY_DECL void give_up(const meeting_ptr& m, const error& why);

  CAUSEWAY_DECL void note(bool harmless, const std::string& line);

  CAUSEWAY_DECL void end(const meeting_ptr& m);

  CAUSEWAY_DECL void release_choice(const meeting_ptr& m);

  CAUSEWAY_DECL static std::string name_of(const meeting& m);

  asio::io_context* io_;
  std::mutex* mutex_;
  std::shared_ptr<accepting> accepting_;
  handshake_options options_;
  handshake_owner* owner_;
  steady_clock clock_;
  informant informant_;
  std::uint64_t talks_ = 0;
  std::set<meeting_ptr> meetings_;
  half_open<meeting_ptr> strangers_;  // those of the meetings that we did not dial
  std::deque<std::string> waiting_;   // addresses to dial when there is room
  stranger_log turned_away_;
  bool over_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_HANDSHAKE_ACCEPTOR_HPP
#endif

// ---- causeway/net/asio_core.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_CORE_HPP
#define CAUSEWAY_NET_ASIO_CORE_HPP

// The engine of a fabric: who is known, whose connection stands, and what its owner is told. What happens is written down
// where it is found and told later, in a turn of the event loop of its own; so nobody is called back in the middle of
// something, and a handler may call whatever it likes.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

template <class Whole>
class basic_fabric_core;
using fabric_core = basic_fabric_core<void>;

template <class Whole>
class basic_fabric_core final : public engine, private link_owner, private handshake_owner {
 public:
  basic_fabric_core(listener at, fabric_options options);
  ~basic_fabric_core() { close(); }

  [[nodiscard]] const fabric_options& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] time_point now() const { return shared_.clock.now(); }

  void attach(fabric_events* events);

  // ---- with the lock held: from events, and inside `locked`

  void dial(const std::string& to);

  void close(peer_index peer, const std::string& why);

  [[nodiscard]] bool is_up(peer_index peer) const;

  void post(peer_index peer, std::vector<std::byte> message, bool bulk);

  void wake_at(time_point when);

  void cancel_before(std::uint32_t epoch);

  void aside(std::function<void()> work, std::function<void()> then);

  // ---- without it

  void locked(const std::function<void()>& what);

  /// Also with the lock held: from the question that `block` asks.
  [[nodiscard]] bool done(operation handle) const;

  result<bool> block(const std::function<bool()>& done, time_point deadline);

  void close();

 private:
  struct event {
    std::optional<peer_index> about;  ///< whose link is given up when there is no memory to handle it
    std::function<void(fabric_events&)> tell;
  };

  /// The thread that holds the lock for its owner's sake: where calls marked "from events" may come from.
  class inside_mark {
   public:
    explicit inside_mark(basic_fabric_core& core) : core_{&core} { core.inside_ = std::this_thread::get_id(); }
    ~inside_mark() { core_->inside_ = std::thread::id{}; }
    inside_mark(const inside_mark&) = delete;
    inside_mark& operator=(const inside_mark&) = delete;

   private:
    fabric_core* core_;
  };
  [[nodiscard]] bool is_inside() const { return inside_ == std::this_thread::get_id(); }

  void in_loop(std::function<void()> what);

  /// Differs from that of every other program that ever had our id.
  [[nodiscard]] std::uint64_t make_incarnation() const;

  static handshake_options handshake_settings(const fabric_options& options);

  void set_address(const endpoint& bound);

  // ---- telling

  void tell(event what);

  void tell_all();

  /// A handler could not do its work. Whoever caused it is given up; a timer comes again a little later.
  void run_out_of_memory(std::optional<peer_index> about);

  void hear_lost(peer_index peer, const error& why) override;

  void hear_control(peer_index peer, control_message message) override;

  void unreachable(const std::string& where, const error& why) override;

  void arm_wake();

  // ---- who is who

  [[nodiscard]] bool is_alive(peer_index peer) const { return peer < links_.size() && !links_[peer]->lost(); }

  [[nodiscard]] bool is_alive(std::optional<peer_index> peer) const { return peer && is_alive(*peer); }

  [[nodiscard]] bool stands(const std::string& where) const;

  introduction introduce(const tcp::socket& to, std::size_t spare) override;

  bool kernel_has_bbr();

  std::optional<error> objection(const introduction& them) override;

  bool is_connected(peer_id id, std::uint64_t incarnation) override;

  wish wish_for(const introduction& them) override { return peers_.wish_for(them, is_alive(peers_.find(them.id))); }

  std::uint64_t choose(const introduction& them, const wish& theirs) override;

  void give_back(const introduction& them, std::uint64_t serial) override { peers_.give_back(them.id, serial); }

  // ---- links

  void take(const introduction& us, const introduction& them, std::uint64_t serial, const std::string& dialled,
            tcp::socket socket) override;

  void open_link(peer_index peer, const introduction& us, const introduction& them, tcp::socket socket);

  /// Whoever dialled makes the streams for data. Sends wait until the first stands.
  void dial_streams(peer_index peer, const tcp::endpoint& remote);

  bool wants_stream(const stream_request& which) override { return is_alive(peers_.lacking(which)); }

  void take_stream(const stream_request& which, tcp::socket socket) override;

  void lose_stream(const stream_request& which, const error& why) override;

  void tick(duration since) override;

  void clear_graves();

  fabric_options options_;
  endpoint announced_;
  std::string address_;
  std::uint64_t incarnation_;
  roster peers_;
  std::optional<bool> has_bbr_;

  std::vector<std::unique_ptr<link>> graves_;  // replaced links whose handlers may not have run yet
  handshake_acceptor handshakes_;

  fabric_events* events_ = nullptr;
  std::deque<event> queue_;
  bool telling_ = false;
  bool opened_ = false;
  std::atomic<std::thread::id> inside_;
  timer wake_timer_;
  time_point wake_time_ = no_deadline;
  std::uint64_t wake_round_ = 0;
  side_thread aside_;  // last: what it runs refers to the rest
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_CORE_HPP
#endif

// ---- causeway/net/impl/asio_fabric.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP
#define CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

static_assert(max_post_bytes == max_control_bytes);

CAUSEWAY_LAZY basic_asio_fabric<Whole>::basic_asio_fabric(listener at, fabric_options options)
    : core_{std::make_shared<detail::fabric_core>(std::move(at), std::move(options))} {}

CAUSEWAY_LAZY basic_asio_fabric<Whole>::~basic_asio_fabric() { core_->close(); }

CAUSEWAY_LAZY peer_id basic_asio_fabric<Whole>::id() const { return core_->options().id; }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::attach(fabric_events* events) { core_->attach(events); }

CAUSEWAY_LAZY time_point basic_asio_fabric<Whole>::now() const { return core_->now(); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::dial(const std::string& to) { core_->dial(to); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::close(peer_index link, const std::string& why) { core_->close(link, why); }

CAUSEWAY_LAZY bool basic_asio_fabric<Whole>::is_up(peer_index link) const { return core_->is_up(link); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::wake_at(time_point when) { core_->wake_at(when); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::cancel_before(std::uint32_t epoch) { core_->cancel_before(epoch); }

CAUSEWAY_LAZY result<std::size_t> basic_asio_fabric<Whole>::wait(operation op, time_point deadline) {
  return core_->wait(op, deadline);
}

CAUSEWAY_LAZY bool basic_asio_fabric<Whole>::done(operation op) const { return core_->done(op); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::locked(const std::function<void()>& what) { core_->locked(what); }

CAUSEWAY_LAZY traffic basic_asio_fabric<Whole>::stats() const { return core_->stats(); }

CAUSEWAY_LAZY std::string basic_asio_fabric<Whole>::describe_waits() const { return core_->describe_waits(); }

CAUSEWAY_LAZY std::size_t basic_asio_fabric<Whole>::streams(peer_index link) const { return core_->streams(link); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::close() { core_->close(); }

CAUSEWAY_LAZY std::string basic_asio_fabric<Whole>::address() const { return core_->address(); }

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::post(peer_index link, std::vector<std::byte> message, bool bulk) {
  core_->post(link, std::move(message), bulk);
}

CAUSEWAY_LAZY void basic_asio_fabric<Whole>::aside(std::function<void()> work, std::function<void()> then) {
  core_->aside(std::move(work), std::move(then));
}

CAUSEWAY_LAZY operation basic_asio_fabric<Whole>::send(peer_index link, const message_id& id,
                                                       std::span<const std::byte> bytes) {
  return core_->start({.is_send = true, .peer = link, .id = id, .source = bytes.data(), .length = bytes.size()});
}

CAUSEWAY_LAZY operation basic_asio_fabric<Whole>::receive(peer_index link, const message_id& id,
                                                          std::span<std::byte> buffer) {
  return core_->start({.is_send = false, .peer = link, .id = id, .target = buffer.data(), .length = buffer.size()});
}

CAUSEWAY_LAZY result<bool> basic_asio_fabric<Whole>::block(const std::function<bool()>& done, time_point deadline) {
  return core_->block(done, deadline);
}

CAUSEWAY_LAZY std::function<void()> basic_asio_fabric<Whole>::interrupter() const {
  return [weak = std::weak_ptr{core_}] {
    if (const auto core = weak.lock()) core->interrupt();
  };
}

CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(listener at, fabric_options options) {
  if (options.run_id == 0 || options.id == 0) {
    return fail(errc::invalid_argument, at.address().text(),
                "a fabric needs the id of a run and of a peer, neither of them 0");
  }
  return std::make_shared<asio_fabric>(std::move(at), std::move(options));
}

CAUSEWAY_DECL result<std::shared_ptr<asio_fabric>> open_fabric(const endpoint& where, fabric_options options) {
  CAUSEWAY_ASSIGN(listener at, open_listener(where, options.transport.log));
  return open_fabric(std::move(at), std::move(options));
}

#ifdef CAUSEWAY_COMPILED
template class basic_asio_fabric<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_FABRIC_IPP
#endif

// ---- causeway/net/impl/asio_memory_stream.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEMORY_STREAM_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEMORY_STREAM_IPP

#include <sys/socket.h>
#include <sys/un.h>
#include <cerrno>
#include <cstdio>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL memory_stream::memory_stream(tcp::executor executor, shared_rings rings, owned_descriptor socket)
    : rings_{std::move(rings)}, socket_{std::move(executor), asio::local::stream_protocol{}, socket.get()} {
  (void)socket.release();
  rings_.close_descriptor();
}

CAUSEWAY_DECL std::size_t memory_stream::send(const std::array<asio::const_buffer, 2>& from, std::error_code& failure) {
  if (gone_) {
    failure = asio::error::broken_pipe;
    return 0;
  }
  const auto view = [](const asio::const_buffer& b) {
    return std::span{static_cast<const std::byte*>(b.data()), b.size()};
  };
  const std::size_t n = rings_.write(view(from[0]), view(from[1]));
  if (rings_.broken()) {
    failure = std::make_error_code(std::errc::bad_message);
  } else if (n == 0) {
    failure = asio::error::would_block;
  }
  wake();
  return n;
}

CAUSEWAY_DECL std::size_t memory_stream::receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure) {
  std::size_t moved = 0;
  for (const asio::mutable_buffer& b : to) {
    const std::size_t n = rings_.read({static_cast<std::byte*>(b.data()), b.size()});
    moved += n;
    if (n < b.size()) break;
  }
  if (rings_.broken()) {
    failure = std::make_error_code(std::errc::bad_message);
  } else if (moved == 0) {
    failure = gone_ ? asio::error::make_error_code(asio::error::eof) : make_error_code(asio::error::would_block);
  }
  wake();
  return moved;
}

// A full socket has wakes in it already.
CAUSEWAY_DECL void memory_stream::wake() {
  if (!rings_.must_wake()) return;
  const char word = 0;
  (void)::send(socket_.native_handle(), &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);
}

CAUSEWAY_DECL void memory_stream::hear() {
  std::array<char, 64> words;
  const auto n = ::recv(socket_.native_handle(), words.data(), words.size(), MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) gone_ = true;
}

// Equal for no two offers of machines that share a network namespace, nor of two that a tunnel joins.
CAUSEWAY_DECL std::uint64_t memory_offer::fresh_number() {
  static std::atomic<std::uint64_t> count{0};
  const auto now = steady_clock{}.now().since_start.count();
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(&count);
  return hasher{++count}.add_value(now).add_value(here).add_value(::getpid()).finish();
}

CAUSEWAY_DECL owned_descriptor memory_offer::make_socket() {
  return owned_descriptor{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

// An abstract name: no file, and gone with its socket.
template <class Call>
bool memory_offer::with_name(std::uint64_t number, Call call) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "causeway-%016llx",
                                   static_cast<unsigned long long>(number));
  const auto all = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  return call(reinterpret_cast<const sockaddr*>(&name), all) == 0;
}

CAUSEWAY_DECL bool memory_offer::is_ours(const owned_descriptor& socket) {
  ucred who{};
  socklen_t length = sizeof who;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == ::geteuid();
}

CAUSEWAY_DECL bool memory_offer::hand_over(const owned_descriptor& memory, const owned_descriptor& socket) {
  char word = 0;
  iovec content{&word, sizeof word};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = memory.get();
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  return ::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

CAUSEWAY_DECL owned_descriptor memory_offer::take_over(const owned_descriptor& socket) {
  char word = 0;
  iovec content{&word, sizeof word};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return owned_descriptor{};
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
      rights->cmsg_len != CMSG_LEN(sizeof(int))) {
    return owned_descriptor{};
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
  return owned_descriptor{descriptor};
}

CAUSEWAY_DECL result<memory_offer> memory_offer::make() {
  const std::uint64_t number = fresh_number();
  owned_descriptor listening = make_socket();
  const auto bind = [&](const sockaddr* name, socklen_t length) { return ::bind(listening.get(), name, length); };
  if (listening.get() < 0 || !with_name(number, bind) || ::listen(listening.get(), 8) != 0) {
    return fail(errc::io_failed, "shared memory", "no Unix socket could be made to offer it at");
  }
  return memory_offer{std::move(listening), number};
}

CAUSEWAY_DECL result<std::unique_ptr<memory_stream>> memory_offer::take(std::uint64_t number, tcp::executor executor) {
  owned_descriptor socket = make_socket();
  const auto connect = [&](const sockaddr* name, socklen_t length) { return ::connect(socket.get(), name, length); };
  if (socket.get() < 0 || !with_name(number, connect) || !is_ours(socket)) {
    return fail(errc::not_found, "shared memory", "the other side is not on this machine, or another user's");
  }
  CAUSEWAY_ASSIGN(shared_rings rings, shared_rings::make(shared_ring_bytes));
  if (!hand_over(rings.memory(), socket)) return fail(errc::io_failed, "shared memory", "it could not be handed over");
  return std::make_unique<memory_stream>(std::move(executor), std::move(rings), std::move(socket));
}

CAUSEWAY_DECL result<std::unique_ptr<memory_stream>> memory_offer::accept(tcp::executor executor) {
  for (;;) {  // strangers may have connected, too; they end with the offer
    owned_descriptor socket{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket.get() < 0) return fail(errc::not_found, "shared memory", "the other side took it, but handed none over");
    if (!is_ours(socket)) continue;
    owned_descriptor memory = take_over(socket);
    if (memory.get() < 0) continue;
    CAUSEWAY_ASSIGN(shared_rings rings, shared_rings::join(std::move(memory)));
    return std::make_unique<memory_stream>(std::move(executor), std::move(rings), std::move(socket));
  }
}

CAUSEWAY_DECL bool is_near(const tcp::socket& socket) {
  std::error_code failure;
  const auto remote = socket.remote_endpoint(failure);
  if (failure) return false;
  const auto local = socket.local_endpoint(failure);
  return !failure && (remote.address().is_loopback() || remote.address() == local.address());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEMORY_STREAM_IPP
#endif

// ---- causeway/net/impl/asio_stream.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_STREAM_IPP
#define CAUSEWAY_NET_IMPL_ASIO_STREAM_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL stream::stream(tcp::socket s) : socket{std::move(s)}, staging(staging_bytes) {}

CAUSEWAY_DECL std::size_t stream::send(std::error_code& failure) {
  return writes_memory ? memory->send(out.buffers(), failure) : socket.send(out.buffers(), 0, failure);
}

CAUSEWAY_DECL std::size_t stream::receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure) {
  return reads_memory ? memory->receive(to, failure) : socket.receive(to, 0, failure);
}

// Memory has no handlers that end by themselves: what waits for it, waits no longer.
CAUSEWAY_DECL void stream::close() {
  std::error_code ignored;
  open = false;
  socket.close(ignored);
  offer.reset();
  if (memory) memory->socket().close(ignored);
  if (reads_memory) read_armed = false;
  if (writes_memory) write_armed = false;
}

CAUSEWAY_DECL error out_of_memory(std::string name) {
  return fail(errc::peer_lost, std::move(name), "there was no memory left for what it sent; its connection was given up");
}

CAUSEWAY_DECL std::size_t chunk_for(std::size_t wanted, std::size_t streams) noexcept {
  const std::size_t automatic = std::size_t{streams > 1 ? 256U : 1024U} << 10U;
  return std::clamp(wanted == 0 ? automatic : wanted, min_chunk_bytes, max_chunk_bytes);
}

CAUSEWAY_DECL std::array<asio::const_buffer, 2> outgoing_frame::buffers() const {
  return {asio::const_buffer{header.data() + header_length - header_left, header_left},
          asio::const_buffer{body, body_left}};
}

CAUSEWAY_DECL void outgoing_frame::begin(frame_header h, std::span<const std::byte> content, bool digest) {
  h.chunk_length = static_cast<std::uint32_t>(content.size());
  h.flags = digest ? has_digest : std::uint8_t{0};
  kind = h.kind;
  encode_header(h, header.data());
  if (digest) store_little(header.data() + header_bytes, hash_bytes(content));
  header_left = header_length = header_bytes + (digest ? digest_bytes : 0);
  body = content.data();
  body_left = body_length = content.size();
}

CAUSEWAY_DECL void outgoing_frame::rescue() {
  own.assign(body, body + body_left);
  body = own.data();
  slot = no_slot;
}

CAUSEWAY_DECL void outgoing_frame::consume(std::size_t n) {
  const std::size_t of_header = std::min(n, header_left);
  header_left -= of_header;
  body += n - of_header;
  body_left -= n - of_header;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_STREAM_IPP
#endif

// ---- causeway/net/impl/asio_frame_reader.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_FRAME_READER_IPP
#define CAUSEWAY_NET_IMPL_ASIO_FRAME_READER_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::byte* frame_reader::place(const stream& s) const {
  if (drops_) return nullptr;
  return s.control.bytes != nullptr ? s.control.bytes.get() : inbox_->place(s.spot);
}

CAUSEWAY_DECL std::array<asio::mutable_buffer, 2> frame_reader::places(stream& s) const {
  asio::mutable_buffer chunk{nullptr, 0};
  if (s.in_chunk) {
    std::byte* const to = place(s);
    chunk = {shared_->scrap.data(), std::min(shared_->scrap.size(), s.chunk_left)};
    if (to != nullptr) chunk = {to + (s.spot.length - s.chunk_left), s.chunk_left};
  }
  if (s.begin != 0) {
    std::memmove(s.staging.data(), s.staging.data() + s.begin, s.end - s.begin);
    s.end -= s.begin;
    s.begin = 0;
  }
  // Behind a discarded chunk's first part comes its second: nothing of it may land in the staging area.
  const bool partial = chunk.size() < s.chunk_left;
  return {chunk, asio::mutable_buffer{s.staging.data() + s.end, partial ? 0 : room_behind_chunk(s)}};
}

CAUSEWAY_DECL std::size_t frame_reader::room_behind_chunk(const stream& s) {
  const bool large = s.spot.length > stream::staging_bytes;
  const std::size_t header = header_bytes + (s.digest ? digest_bytes : 0);
  return (large ? std::max(header, s.end + 1) : s.staging.size()) - s.end;
}

CAUSEWAY_DECL result<std::optional<frame_header>> frame_reader::next_header(stream& s) const {
  using none = std::optional<frame_header>;
  if (s.end - s.begin < header_bytes) return none{};
  CAUSEWAY_ASSIGN(const frame_header h, decode_header({s.staging.data() + s.begin, s.end - s.begin}));
  const bool has = h.flags == has_digest;
  if (has && s.end - s.begin < header_bytes + digest_bytes) return none{};
  s.begin += header_bytes;
  s.digest.reset();
  if (has) {
    s.digest = load_little<std::uint64_t>(s.staging.data() + s.begin);
    s.begin += digest_bytes;
  }
  ++shared_->stats.frames_received;
  if (h.run_id != shared_->run_id) return fail(errc::wrong_run, "", "it sent a frame of another run");
  if (h.sender != sender_) return fail(errc::protocol, "", "it sent a frame in somebody else's name");
  return std::optional{h};
}

CAUSEWAY_DECL result<bool> frame_reader::begin_chunk(stream& s, const frame_header& h) const {
  chunk_target spot{.how = chunk_target::kind::discard, .length = h.chunk_length};
  if (!drops_) {
    CAUSEWAY_ASSIGN(spot, inbox_->begin_chunk(h));
  }
  if (spot.how == chunk_target::kind::parked) {
    s.parked = h;
    return false;
  }
  s.parked.reset();
  begin_content(s, spot, h.chunk_length);
  return true;
}

CAUSEWAY_DECL result<void> frame_reader::begin_control(stream& s, const frame_header& h) {
  if (h.kind != frame_kind::refused && h.sequence != next_control_++) {
    return fail(errc::protocol, "", "a control message came twice or is missing");
  }
  s.control = {std::unique_ptr<std::byte[]>{new std::byte[h.chunk_length]}, h.chunk_length};
  s.control_kind = h.kind;
  begin_content(s, {.how = chunk_target::kind::kept, .length = h.chunk_length}, h.chunk_length);
  return {};
}

CAUSEWAY_DECL void frame_reader::begin_content(stream& s, const chunk_target& spot, std::size_t length) {
  s.spot = spot;
  s.chunk_left = length;
  s.in_chunk = true;
}

CAUSEWAY_DECL std::size_t frame_reader::take_staged(stream& s) const {
  const std::size_t n = std::min(s.end - s.begin, s.chunk_left);
  if (n == 0) return 0;
  std::byte* const to = place(s);
  if (to != nullptr) std::memcpy(to + (s.spot.length - s.chunk_left), s.staging.data() + s.begin, n);
  s.begin += n;
  return n;
}

CAUSEWAY_DECL result<std::optional<control_message>> frame_reader::advance(stream& s, std::size_t n) const {
  std::optional<control_message> whole;
  s.chunk_left -= n;
  if (s.chunk_left != 0) return whole;
  s.in_chunk = false;
  const std::byte* const content = place(s);
  if (s.digest && content != nullptr && *s.digest != hash_bytes({content, s.spot.length})) {
    return fail(errc::corrupt, "", "what it sent fails its checksum");
  }
  control_message control = std::exchange(s.control, {});
  if (drops_) return whole;
  if (control.bytes != nullptr) {
    whole = std::move(control);
  } else {
    inbox_->end_chunk(s.spot);
  }
  return whole;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_FRAME_READER_IPP
#endif

// ---- causeway/net/impl/asio_outbox.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_OUTBOX_IPP
#define CAUSEWAY_NET_IMPL_ASIO_OUTBOX_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL outbox::outbox(link_context& shared, std::size_t chunk) : shared_{&shared}, chunk_{chunk} {}

CAUSEWAY_DECL void outbox::send(slot_index slot) { sends_.push_back(slot); }

CAUSEWAY_DECL bool outbox::post(frame_kind kind, std::vector<std::byte> bytes, bool bulk) {
  const std::size_t after = control_bytes_ + bytes.size() + header_bytes;
  (bulk ? bulk_ : urgent_).push_back({kind, std::move(bytes)});
  count_control(after);
  const bool too_much_for_all = shared_->unsent.exceeded(0) && after > shared_->options.control_backlog / 16;
  return after <= shared_->options.control_backlog && !too_much_for_all;
}

CAUSEWAY_DECL bool outbox::next_frame(stream& s, share of) {
  if (s.said_goodbye) return false;
  if (!s.notices.empty()) {
    s.out.begin(s.notices.front(), {}, false);
    s.notices.pop_front();
    return true;
  }
  if (of.control && take_control(urgent_, s.out)) return true;
  if (s.goodbye_due) {
    s.said_goodbye = true;
    s.out.begin(header(frame_kind::goodbye), {}, false);
    return true;
  }
  if (of.chunks && take_chunk(s.out)) return true;
  return of.control && (sends_.empty() || of.data_stalls) && take_control(bulk_, s.out);
}

CAUSEWAY_DECL bool outbox::take_chunk(outgoing_frame& out) {
  if (sends_.empty()) return false;
  pending_operation& op = shared_->operations[sends_.front()];
  if (op.taken == 0) op.sequence = next_sequence_++;
  const std::size_t length = std::min(chunk_, op.length - op.taken);
  frame_header h = header(frame_kind::data);
  h.id = op.id;
  h.sequence = op.sequence;
  h.message_length = op.length;
  h.chunk_offset = op.taken;
  out.begin(h, {op.source + op.taken, length}, shared_->options.digest);
  out.slot = sends_.front();
  op.taken += length;
  if (op.taken == op.length) sends_.pop_front();
  return true;
}

CAUSEWAY_DECL void outbox::written(outgoing_frame& out) {
  ++shared_->stats.frames_sent;
  if (out.slot == no_slot) return;
  pending_operation& op = shared_->operations[out.slot];
  op.moved += out.body_length;
  if (op.moved == op.length) shared_->operations.finish(out.slot);
  out.slot = no_slot;
}

CAUSEWAY_DECL std::optional<frame_header> outbox::cancel(slot_index slot) {
  const pending_operation& op = shared_->operations[slot];
  std::erase(sends_, slot);
  if (op.taken == 0 || op.taken == op.length) return std::nullopt;
  frame_header h = header(frame_kind::abort);
  h.id = op.id;
  h.sequence = op.sequence;
  h.message_length = op.length;
  h.chunk_offset = op.taken;
  return h;
}

CAUSEWAY_DECL void outbox::fail_sends(const error& why) {
  for (const slot_index slot : sends_) shared_->operations.finish(slot, why);
  sends_.clear();
}

CAUSEWAY_DECL void outbox::drop_bulk() {
  for (const queued& q : bulk_) count_control(control_bytes_ - q.bytes.size() - header_bytes);
  bulk_.clear();
}

CAUSEWAY_DECL void outbox::drop_control() {
  bulk_.clear();
  urgent_.clear();
  count_control(0);
}

CAUSEWAY_DECL frame_header outbox::header(frame_kind kind) const {
  frame_header h;
  h.kind = kind;
  h.run_id = shared_->run_id;
  h.sender = shared_->self;
  return h;
}

CAUSEWAY_DECL void outbox::count_control(std::size_t bytes) {
  shared_->unsent.give(control_bytes_);
  shared_->unsent.take(bytes);
  control_bytes_ = bytes;
}

CAUSEWAY_DECL bool outbox::take_control(std::deque<queued>& from, outgoing_frame& out) {
  if (from.empty()) return false;
  out.own = std::move(from.front().bytes);
  frame_header h = header(from.front().kind);
  from.pop_front();
  count_control(control_bytes_ - out.own.size() - header_bytes);
  const bool control = h.kind == frame_kind::control;
  if (control) h.sequence = next_control_++;
  if (control) h.message_length = out.own.size();
  out.begin(h, out.own, control);
  return true;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_OUTBOX_IPP
#endif

// ---- causeway/net/impl/asio_memory_move.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEMORY_MOVE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEMORY_MOVE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL bool memory_move::consider(stream& s, std::uint64_t length) const {
  if (length < shared_from_bytes || shared_->self >= sender_ || !shared_->options.shared_memory) return false;
  if (std::exchange(s.memory_asked, true) || !is_near(s.socket)) return false;
  auto offer = memory_offer::make();
  if (!offer) return false;
  frame_header h = outbox_->header(frame_kind::memory_offer);
  h.id.step = offer->number();
  s.offer.emplace(std::move(*offer));
  s.notices.push_back(h);
  return true;
}

CAUSEWAY_DECL auto memory_move::hear(stream& s, const frame_header& h, bool closing) const -> result<next> {
  const bool answered = s.offer || (s.memory && !s.reads_memory);
  const bool fits = h.kind == frame_kind::memory_offer ? !s.memory_asked && sender_ < shared_->self : answered;
  if (!fits) return fail(errc::protocol, "", "it spoke of shared memory out of turn");
  if (h.kind == frame_kind::memory_offer) return answer(s, h.id.step, closing);
  if (h.kind == frame_kind::memory_taken) return follow(s);
  s.offer.reset();
  return next::nothing;
}

CAUSEWAY_DECL auto memory_move::answer(stream& s, std::uint64_t number, bool closing) const -> next {
  s.memory_asked = true;
  if (closing) return next::nothing;
  if (shared_->options.shared_memory && is_near(s.socket)) {
    if (auto made = memory_offer::take(number, s.socket.get_executor())) s.memory = std::move(*made);
  }
  s.notices.push_back(outbox_->header(s.memory ? frame_kind::memory_taken : frame_kind::memory_declined));
  return s.memory ? next::wake : next::write;
}

CAUSEWAY_DECL auto memory_move::follow(stream& s) const -> result<next> {
  if (s.begin != s.end) return fail(errc::protocol, "", "it goes on over TCP after it moved to shared memory");
  const bool ours = s.offer.has_value();
  if (ours) {
    auto made = s.offer->accept(s.socket.get_executor());
    if (!made) return made.error();
    s.memory = std::move(*made);
    s.offer.reset();
    s.notices.push_back(outbox_->header(frame_kind::memory_taken));
  }
  s.reads_memory = true;
  leave_tcp(s);
  return ours ? next::wake : next::write;
}

CAUSEWAY_DECL void memory_move::taken(stream& s) const {
  s.writes_memory = true;
  leave_tcp(s);
}

CAUSEWAY_DECL void memory_move::leave_tcp(stream& s) const {
  if (!s.reads_memory || !s.writes_memory) return;
  std::error_code ignored;
  s.socket.close(ignored);
  shared_->options.log(severity::debug, name_ + ": it is on this machine; we talk through shared memory");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEMORY_MOVE_IPP
#endif

// ---- causeway/net/impl/asio_stream_waits.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_STREAM_WAITS_IPP
#define CAUSEWAY_NET_IMPL_ASIO_STREAM_WAITS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL void stream_waits::to_read(stream& s) const {
  s.read_armed = true;
  if (s.reads_memory) {
    if (!s.memory->sleep_until_readable()) look_again(s);
    return;
  }
  s.socket.async_wait(tcp::socket::wait_read, completion{[this, &s](std::error_code failure) {
                        const std::lock_guard lock{shared_->mutex};
                        s.read_armed = false;
                        if (!failure) readable_(s);
                      }});
}

CAUSEWAY_DECL void stream_waits::to_write(stream& s) const {
  s.write_armed = true;
  if (s.writes_memory) {
    if (!s.memory->sleep_until_writable()) look_again(s);
    return;
  }
  s.socket.async_wait(tcp::socket::wait_write, completion{[this, &s](std::error_code failure) {
                        const std::lock_guard lock{shared_->mutex};
                        s.write_armed = false;
                        if (!failure) writable_(s);
                      }});
}

CAUSEWAY_DECL void stream_waits::to_be_woken(stream& s) const {
  ++s.wakes;
  s.memory->socket().async_wait(memory_stream::wake_socket::wait_read, completion{[this, &s](std::error_code failure) {
                                  const std::lock_guard lock{shared_->mutex};
                                  --s.wakes;
                                  if (failure || !s.open) return;
                                  s.memory->hear();
                                  if (!s.memory->gone()) to_be_woken(s);
                                  look_into_memory(s);
                                }});
}

CAUSEWAY_DECL void stream_waits::look_again(stream& s) const {
  ++s.wakes;
  asio::post(s.memory->socket().get_executor(), std::function<void()>{[this, &s] {
               const std::lock_guard lock{shared_->mutex};
               --s.wakes;
               if (s.open) look_into_memory(s);
             }});
}

CAUSEWAY_DECL void stream_waits::look_into_memory(stream& s) const {
  if (s.reads_memory && std::exchange(s.read_armed, false)) readable_(s);
  if (s.open && s.writes_memory && std::exchange(s.write_armed, false)) writable_(s);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_STREAM_WAITS_IPP
#endif

// ---- causeway/net/impl/asio_link.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_LINK_IPP
#define CAUSEWAY_NET_IMPL_ASIO_LINK_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL link::link(link_context& shared, link_identity who, std::vector<tcp::socket> sockets)
    : shared_{&shared},
      who_{std::move(who)},
      outbox_{shared, who_.chunk},
      inbox_{shared.operations,
             who_.name,
             {who_.their_chunk, shared.options.unexpected_bytes, 4 * shared.options.unexpected_bytes, &shared.early}},
      reader_{shared, who_.sender, inbox_},
      move_{shared, who_.sender, who_.name, outbox_},
      waits_{shared, [this](stream& s) { guarded([&] { read_some(s); }); },
             [this](stream& s) { guarded([&] { write_some(s); }); }},
      last_heard_{shared.clock.now()},
      gaps_{arrival_options{.floor = shared.options.silence, .cap = shared.options.silence * 12}} {
  for (tcp::socket& socket : sockets) take_socket(std::move(socket));
}

CAUSEWAY_DECL error link::closed_error() {
  return fail(errc::cancelled, "transport", "it was closed before this was waited for");
}

CAUSEWAY_DECL void link::start_reading() {
  for (const auto& s : streams_) read_some(*s);
}

CAUSEWAY_DECL void link::add_stream(tcp::socket socket) {
  if (failure_) return;
  stream& s = take_socket(std::move(socket));
  read_some(s);
  if (failure_) return;
  // The other side has this stream, too, and takes a goodbye for one only if it comes on all.
  reader_.drops() ? queue_goodbye(s) : write_some(s);
}

CAUSEWAY_DECL void link::send(slot_index slot) {
  if (failure_) return shared_->operations.finish(slot, *failure_);
  outbox_.send(slot);
  for (const auto& s : streams_) write_some(*s);
}

CAUSEWAY_DECL void link::post(std::vector<std::byte> message, bool bulk) {
  if (failure_ || reader_.drops()) return;
  const bool taken = outbox_.post(frame_kind::control, std::move(message), bulk);
  write_some(*streams_[0]);
  if (!taken) lose(fail(errc::peer_lost, who_.name, "it does not take our control messages; too many wait for it"));
}

CAUSEWAY_DECL void link::receive(slot_index slot) {
  inbox_.post(slot);
  if (failure_) {
    if (!shared_->operations[slot].done) inbox_.fail_all(*failure_);
    return;
  }
  resume_parked();
}

CAUSEWAY_DECL void link::cancel(slot_index slot) {
  shared_->operations[slot].is_send ? cancel_send(slot) : inbox_.cancel(slot);
}

CAUSEWAY_DECL void link::discard_before(std::uint32_t epoch) {
  inbox_.discard_before(epoch);
  if (!failure_) resume_parked();
}

CAUSEWAY_DECL void link::refuse_before(std::uint32_t epoch) {
  past_.end_before(epoch);
  inbox_.refuse_before(epoch);
  if (!failure_) resume_parked();
}

CAUSEWAY_DECL void link::tick(duration since_last_tick) {
  guarded([&] { look_after_streams(since_last_tick); });
}

CAUSEWAY_DECL void link::say_goodbye() {
  if (failure_) return;
  outbox_.fail_sends(closed_error());
  outbox_.drop_bulk();
  inbox_.fail_all(closed_error());
  reader_.drop_all();
  for (const auto& s : streams_) {
    if (s->out.slot == no_slot) {
      queue_goodbye(*s);
      if (s->parked) read_some(*s);
    } else {
      shared_->operations.finish(s->out.slot, closed_error());
      s->close();
    }
  }
}

CAUSEWAY_DECL void link::dismiss(const error& why) {
  if (failure_) return;
  for (const auto& s : streams_) {
    if (s->out.slot == no_slot) continue;
    shared_->operations.finish(s->out.slot, why);
    s->out.rescue();
  }
  reader_.drop_all();
  outbox_.drop_bulk();
  fail_with(why);
  outbox_.post(frame_kind::refused, encode_refusal(why), false);
  for (const auto& s : streams_) {
    queue_goodbye(*s);
    if (s->parked) read_some(*s);
  }
}

CAUSEWAY_DECL void link::lose(error why) {
  for (const auto& s : streams_) s->close();
  if (failure_) return;
  outbox_.drop_control();
  fail_with(std::move(why));
  shared_->options.log(severity::warning, failure_->text());
}

CAUSEWAY_DECL bool link::over() const {
  return std::ranges::none_of(streams_, [](const auto& s) { return s->open; });
}

CAUSEWAY_DECL bool link::at_rest() const {
  return std::ranges::none_of(streams_,
                              [](const auto& s) { return s->open || s->read_armed || s->write_armed || s->wakes != 0; });
}

CAUSEWAY_DECL bool link::is_paused() const {
  return std::ranges::any_of(streams_, [](const auto& s) { return s->parked.has_value(); });
}

CAUSEWAY_DECL stream& link::take_socket(tcp::socket socket) {
  tune(socket, shared_->options.socket_buffer, shared_->options.bbr);
  streams_.push_back(std::make_unique<stream>(std::move(socket)));
  streams_.back()->last_heard = shared_->clock.now();
  return *streams_.back();
}

CAUSEWAY_DECL void link::look_after_streams(duration since_last_tick) {
  if (failure_) return end_farewell();
  const bool data_moved =
      std::ranges::any_of(streams_, [&](const auto& s) { return s->wrote_since_tick && !is_first(*s); });
  data_stalls_ = outbox_.has_sends() && !data_moved;
  for (std::size_t i = 0; i < streams_.size() && !failure_; ++i) tick_stream(*streams_[i], since_last_tick);
}

CAUSEWAY_DECL void link::tick_stream(stream& s, duration since_last_tick) {
  // A stream that is busy has more to say than that we live.
  if (!s.wrote_since_tick && !s.out.busy()) s.notices.push_back(outbox_.header(frame_kind::heartbeat));
  write_some(s);
  if (failure_) return;
  s.wrote_since_tick = false;
  if (s.parked || s.heard_goodbye) s.silent = {};
  // Time that this process itself was stopped for does not count against the peer.
  s.silent += std::min(since_last_tick, shared_->options.heartbeat * 2);
  if (s.silent <= std::max(shared_->options.silence, gaps_.count() == 0 ? duration{0} : gaps_.patience())) return;
  lose(fail(errc::peer_lost, who_.name,
            "nothing was heard from it for " + std::to_string(static_cast<int>(seconds(s.silent))) +
                " s; its machine or the network may be down"));
}

CAUSEWAY_DECL void link::write_some(stream& s) {
  if (!s.open || s.write_armed) return;
  for (std::size_t moved = 0; moved < turn_bytes;) {
    if (!s.out.busy() && !next_frame(s)) return;
    std::error_code failure;
    const std::size_t n = s.send(failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) break;
    if (failure) return lose_to(failure);
    shared_->stats.bytes_sent += n;
    s.wrote_since_tick = true;
    moved += n;
    s.out.consume(n);
    if (!s.out.busy()) finish_frame(s);
    if (!s.open) return;
  }
  waits_.to_write(s);
}

CAUSEWAY_DECL bool link::next_frame(stream& s) {
  const outbox::share share{
      .control = is_first(s), .chunks = !is_first(s) || !who_.control_apart, .data_stalls = data_stalls_};
  if (!outbox_.next_frame(s, share)) return false;
  if (s.out.slot != no_slot && !reader_.drops()) (void)move_.consider(s, shared_->operations[s.out.slot].length);
  return true;
}

CAUSEWAY_DECL void link::finish_frame(stream& s) {
  if (s.out.kind == frame_kind::memory_taken) move_.taken(s);
  outbox_.written(s.out);
  if (s.said_goodbye) return end_writing(s);
  if (!is_first(s) && outbox_.bulk_may_go()) write_some(*streams_[0]);
}

CAUSEWAY_DECL void link::cancel_send(slot_index slot) {
  const auto notice = outbox_.cancel(slot);
  for (const auto& s : streams_) {
    if (s->out.slot == slot) s->out.rescue();
  }
  if (failure_ || !notice) return;
  streams_[0]->notices.push_back(*notice);
  write_some(*streams_[0]);
}

CAUSEWAY_DECL void link::queue_goodbye(stream& s) {
  if (!s.open || s.goodbye_due) return;
  s.goodbye_due = true;
  write_some(s);
}

CAUSEWAY_DECL void link::end_writing(stream& s) {
  std::error_code ignored;
  if (!s.writes_memory) s.socket.shutdown(tcp::socket::shutdown_send, ignored);
  if (s.heard_goodbye) s.close();
}

CAUSEWAY_DECL void link::read_some(stream& s) {
  if (!s.open || s.read_armed) return;
  for (std::size_t moved = 0; moved < turn_bytes;) {
    if (!parse_staged(s)) return;
    const auto buffers = reader_.places(s);
    std::error_code failure;
    const std::size_t n = s.receive(buffers, failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) break;
    if (failure) return lose_to(failure);
    note_heard(s, n);
    moved += n;
    const std::size_t of_chunk = std::min(n, buffers[0].size());
    if (of_chunk != 0 && !advance_chunk(s, of_chunk)) return;
    s.end += n - of_chunk;
    // Less than there was room for: the socket is empty, and parsing what came is all that is left to do.
    if (!s.reads_memory && n < buffers[0].size() + buffers[1].size()) {
      if (!parse_staged(s)) return;
      break;
    }
  }
  waits_.to_read(s);
}

CAUSEWAY_DECL bool link::parse_staged(stream& s) {
  while (s.open) {
    if (s.parked && !begin_chunk(s, *s.parked)) return false;
    if (s.in_chunk) {
      const std::size_t n = reader_.take_staged(s);
      if (n == 0) return true;
      if (!advance_chunk(s, n)) return false;
    } else {
      auto h = reader_.next_header(s);
      if (!h) return reject(std::move(h).error());
      if (!*h) return true;
      if (!take_header(s, **h)) return false;
    }
  }
  return false;
}

CAUSEWAY_DECL bool link::take_header(stream& s, const frame_header& h) {
  switch (h.kind) {
    case frame_kind::data: return begin_chunk(s, h);
    case frame_kind::heartbeat: return true;
    case frame_kind::goodbye: return hear_goodbye(s);
    case frame_kind::abort: {
      if (reader_.drops()) return true;
      auto outcome = inbox_.abort_message(h);
      return outcome ? true : reject(std::move(outcome).error());
    }
    case frame_kind::control:
    case frame_kind::refused: return begin_control(s, h);
    case frame_kind::memory_offer:
    case frame_kind::memory_taken:
    case frame_kind::memory_declined: return hear_memory(s, h);
    default: return reject(fail(errc::protocol, "", "it sent a handshake in the middle of a run"));
  }
}

CAUSEWAY_DECL bool link::begin_chunk(stream& s, frame_header h) {
  auto begun = reader_.begin_chunk(s, h);
  if (!begun) return reject(std::move(begun).error());
  if (!*begun) return false;
  if (past_.contains(h.id.epoch)) ++shared_->stats.frames_rejected;
  if (!reader_.drops() && move_.consider(s, h.message_length)) write_some(s);
  if (!s.open) return false;
  return h.chunk_length != 0 || advance_chunk(s, 0);
}

CAUSEWAY_DECL bool link::begin_control(stream& s, const frame_header& h) {
  if (shared_->owner == nullptr || !is_first(s)) {
    return reject(fail(errc::protocol, "", "it sent a control message where none belongs"));
  }
  auto begun = reader_.begin_control(s, h);
  if (!begun) return reject(std::move(begun).error());
  return h.chunk_length != 0 || advance_chunk(s, 0);
}

CAUSEWAY_DECL bool link::advance_chunk(stream& s, std::size_t n) {
  auto control = reader_.advance(s, n);
  if (!control) return reject(std::move(control).error());
  return !*control || take_control(s, std::move(**control));
}

CAUSEWAY_DECL bool link::take_control(const stream& s, control_message message) {
  if (s.control_kind == frame_kind::control) {
    shared_->owner->hear_control(who_.peer, std::move(message));
    return true;
  }
  const error why = read_refusal(who_.name, message.view());
  lose(fail(errc::peer_lost, who_.name, "it ended the connection: " + why.message));
  return false;
}

CAUSEWAY_DECL void link::resume_parked() {
  for (const auto& s : streams_) {
    if (s->parked) read_some(*s);
  }
}

CAUSEWAY_DECL void link::note_heard(stream& s, std::size_t n) {
  shared_->stats.bytes_received += n;
  const time_point now = shared_->clock.now();
  // Only pauses say something about how long a living peer can be silent.
  if (now - s.last_heard > shared_->options.heartbeat / 2) gaps_.observe(now - s.last_heard);
  s.last_heard = last_heard_ = now;
  s.silent = {};
}

CAUSEWAY_DECL bool link::hear_goodbye(stream& s) {
  s.heard_goodbye = true;
  const bool left = std::ranges::all_of(streams_, [](const auto& x) { return x->heard_goodbye; });
  if (!left) return false;
  if (!failure_) {
    outbox_.drop_control();
    fail_with(fail(errc::peer_lost, who_.name, "it left the run"));
    shared_->options.log(severity::info, failure_->text());
  }
  for (const auto& x : streams_) answer_goodbye(*x);
  return false;
}

CAUSEWAY_DECL void link::answer_goodbye(stream& s) {
  if (s.out.busy() && s.out.slot != no_slot) return s.close();  // nobody reads the rest
  if (s.said_goodbye && !s.out.busy()) return s.close();
  queue_goodbye(s);
}

CAUSEWAY_DECL bool link::reject(error why) {
  ++shared_->stats.frames_rejected;
  why.message = why.message + " (it was dropped; the others go on)";
  why.where = who_.name;
  lose(fail(errc::peer_lost, who_.name, "dropped: " + why.text()));
  return false;
}

CAUSEWAY_DECL bool link::hear_memory(stream& s, const frame_header& h) {
  auto heard = move_.hear(s, h, reader_.drops());
  if (!heard) return reject(std::move(heard).error());
  if (*heard == memory_move::next::nothing) return true;
  if (*heard == memory_move::next::wake) waits_.to_be_woken(s);
  write_some(s);
  return s.open;
}

CAUSEWAY_DECL void link::lose_to(const std::error_code& failure) {
  if (failure == std::errc::bad_message) {
    return (void)reject(fail(errc::protocol, "", "its counters in shared memory cannot be"));
  }
  const std::string reason = failure == asio::error::eof ? "its program ended" : failure.message();
  lose(fail(errc::peer_lost, who_.name, "the connection ended: " + reason));
}

CAUSEWAY_DECL void link::fail_with(error why) {
  failure_ = std::move(why);
  failed_at_ = shared_->clock.now();
  outbox_.fail_sends(*failure_);
  for (const auto& s : streams_) {
    if (s->out.slot == no_slot) continue;
    shared_->operations.finish(std::exchange(s->out.slot, no_slot), *failure_);
    s->close();
  }
  inbox_.fail_all(*failure_);
  if (shared_->owner != nullptr) shared_->owner->hear_lost(who_.peer, *failure_);
}

CAUSEWAY_DECL void link::end_farewell() {
  if (over() || shared_->clock.now() - failed_at_ < shared_->options.close_grace) return;
  for (const auto& s : streams_) s->close();
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_LINK_IPP
#endif

// ---- causeway/net/impl/asio_engine.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_ENGINE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_ENGINE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::chrono::steady_clock::time_point to_standard(time_point when, time_point now) {
  const time_point capped = std::min(when, now + std::chrono::hours{1});
  return std::chrono::steady_clock::time_point{
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(capped.since_start)};
}

CAUSEWAY_DECL event_loop::event_loop(std::unique_ptr<asio::io_context> io, std::mutex& mutex)
    : io_{std::move(io)}, mutex_{&mutex} {}

CAUSEWAY_DECL void event_loop::start() {
  background_ = std::thread{[this] { run_background(); }};
}

CAUSEWAY_DECL void event_loop::wake() {
  if (!trainer_waits_) return;
  asio::post(*io_, std::function<void()>{[] {}});
  trainer_turn_.notify_all();
}

CAUSEWAY_DECL void event_loop::stop(std::unique_lock<std::mutex>& lock) {
  stopping_ = true;
  asio::post(*io_, std::function<void()>{[] {}});  // in case it is inside the loop
  background_turn_.notify_all();
  lock.unlock();
  if (background_.joinable()) background_.join();
}

CAUSEWAY_DECL void event_loop::run_background() {
  std::unique_lock lock{*mutex_};
  std::uint64_t seen_turns = 0;
  while (!stopping_) {
    if (loop_taken_ || trainer_waits_ || seen_turns != trainer_turns_) {
      seen_turns = trainer_turns_;
      background_turn_.wait_for(lock, trainer_waits_ ? 5 * patience : patience);
      continue;
    }
    run_unlocked(lock, [&] { io_->run_one(); });
    if (trainer_waits_) trainer_turn_.notify_all();
  }
}

CAUSEWAY_DECL operation engine::start(pending_operation what) {
  const std::lock_guard lock{shared_.mutex};
  what.since = shared_.clock.now();
  const slot_index slot = shared_.operations.start(what);
  if (closed_) {
    shared_.operations.finish(slot, fail(errc::cancelled, "transport", "it was closed"));
  } else if (what.peer >= links_.size() || !links_[what.peer]) {
    shared_.operations.finish(slot, fail(errc::invalid_argument, peer_name(what.peer), "there is no such other peer"));
  } else if (past_.contains(what.id.epoch)) {
    shared_.operations.finish(slot, epoch_over(what.peer));
  } else if (what.is_send && what.length > max_message_bytes) {
    shared_.operations.finish(slot, fail(errc::too_large, links_[what.peer]->name(), "a message is at most 64 GiB"));
  } else if (what.is_send) {
    links_[what.peer]->send(slot);
  } else {
    links_[what.peer]->receive(slot);
  }
  return shared_.operations.handle(slot);
}

CAUSEWAY_DECL result<std::size_t> engine::wait(operation handle, time_point deadline) {
  std::unique_lock lock{shared_.mutex};
  const slot_index slot = shared_.operations.find(handle);
  if (slot == no_slot) return fail(errc::invalid_argument, "wait", "no such operation: each is waited for once");
  if (!loop_.drive(lock, deadline, [&] { return shared_.operations[slot].done || interrupted_; })) {
    time_out(slot);
  } else if (!shared_.operations[slot].done) {
    links_[shared_.operations[slot].peer]->cancel(slot);
    shared_.operations.finish(slot, fail(errc::cancelled, "transport", "stopped on request"));
  }
  return shared_.operations.release(slot);
}

CAUSEWAY_DECL bool engine::done(operation handle) const {
  const std::lock_guard lock{shared_.mutex};
  return shared_.operations.done(handle);
}

CAUSEWAY_DECL bool engine::wait_any(std::span<const operation> handles, time_point deadline) {
  std::unique_lock lock{shared_.mutex};
  const auto ended = [&](operation handle) { return shared_.operations.done(handle); };
  const auto any = [&] { return std::any_of(handles.begin(), handles.end(), ended); };
  return loop_.drive(lock, deadline, [&] { return interrupted_ || any(); }) && any();
}

CAUSEWAY_DECL void engine::interrupt() {
  const std::lock_guard lock{shared_.mutex};
  interrupted_ = true;
  loop_.wake();
}

CAUSEWAY_DECL traffic engine::stats() const {
  const std::lock_guard lock{shared_.mutex};
  return shared_.stats;
}

CAUSEWAY_DECL std::size_t engine::streams(peer_index peer) const {
  const std::lock_guard lock{shared_.mutex};
  return peer < links_.size() && links_[peer] ? links_[peer]->stream_count() : 0;
}

CAUSEWAY_DECL std::string engine::describe_waits() const {
  const std::lock_guard lock{shared_.mutex};
  const time_point now = shared_.clock.now();
  std::string text;
  shared_.operations.for_each_unfinished([&](const pending_operation& op) {
    const link& l = *links_[op.peer];
    text += std::string{op.is_send ? "sending to " : "receiving from "} + l.name() + " (" + to_text(op.id) + ") for " +
            tenths(seconds(now - op.since)) + " s: " + std::to_string(op.moved) + (op.is_send ? " of " : " of at most ") +
            std::to_string(op.length) + " bytes; last heard from it " + tenths(seconds(now - l.last_heard())) + " s ago" +
            (l.is_paused() ? ", reading is paused" : "") + "\n";
  });
  return text;
}

CAUSEWAY_DECL engine::engine(std::unique_ptr<asio::io_context> io, std::uint64_t run_id, std::uint32_t sender,
                             transport_options options)
    : loop_{std::move(io), shared_.mutex}, timer_{loop_.io()} {
  raise_descriptor_limit();
  shared_.options = std::move(options);
  shared_.early = memory_budget{shared_.options.unexpected_total};
  shared_.unsent = memory_budget{shared_.options.control_total};
  shared_.run_id = run_id;
  shared_.self = sender;
  last_tick_ = shared_.clock.now();
}

CAUSEWAY_DECL void engine::run() {
  arm_timer();
  loop_.start();
}

CAUSEWAY_DECL bool engine::shut_down(std::unique_lock<std::mutex>& lock) {
  if (closed_) return false;
  closed_ = true;
  for (const auto& l : links_) {
    if (l) l->say_goodbye();
  }
  const time_point grace = shared_.clock.now() + shared_.options.close_grace;
  loop_.drive(lock, grace,
              [&] { return std::all_of(links_.begin(), links_.end(), [](const auto& l) { return !l || l->over(); }); });
  timer_.cancel();
  loop_.stop(lock);
  return true;
}

CAUSEWAY_DECL void engine::end_epochs_before(std::uint32_t epoch) {
  if (!past_.end_before(epoch)) return;
  shared_.operations.for_each_unfinished_slot([&](slot_index slot) {
    const pending_operation& op = shared_.operations[slot];
    if (!past_epochs{epoch}.contains(op.id.epoch)) return;
    links_[op.peer]->cancel(slot);
    shared_.operations.finish(slot, epoch_over(op.peer));
  });
  for (const auto& l : links_) {
    if (l) l->refuse_before(epoch);
  }
  loop_.wake();
}

CAUSEWAY_DECL error engine::epoch_over(peer_index peer) const {
  return fail(errc::cancelled, links_[peer]->name(), "the epoch of this message is over");
}

CAUSEWAY_DECL void engine::time_out(slot_index slot) {
  pending_operation& op = shared_.operations[slot];
  link& l = *links_[op.peer];
  l.cancel(slot);
  const double waited = seconds(shared_.clock.now() - op.since);
  shared_.operations.finish(
      slot, fail(errc::timeout, l.name(),
                 std::string{op.is_send ? "it did not take our message (" : "its message did not come ("} + to_text(op.id) +
                     ") within " + tenths(waited) + " s: " + std::to_string(op.moved) + " of " +
                     (op.is_send ? "" : "at most ") + std::to_string(op.length) + " bytes moved; last heard from it " +
                     tenths(seconds(shared_.clock.now() - l.last_heard())) + " s ago"));
}

CAUSEWAY_DECL void engine::arm_timer() {
  timer_.expires_after(shared_.options.heartbeat);
  timer_.async_wait(completion{[this](std::error_code failure) {
    if (failure) return;
    const std::lock_guard lock{shared_.mutex};
    if (loop_.stopping()) return;
    const time_point now = shared_.clock.now();
    for (const auto& l : links_) {
      if (l) l->tick(now - last_tick_);
    }
    tick(now - last_tick_);
    last_tick_ = now;
    arm_timer();
  }});
}

CAUSEWAY_DECL std::string engine::tenths(double s) {
  const auto t = static_cast<std::int64_t>(s * 10 + 0.5);
  return std::to_string(t / 10) + "." + std::to_string(t % 10);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_ENGINE_IPP
#endif

// ---- causeway/net/impl/handshake_acceptor.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_HANDSHAKE_ACCEPTOR_IPP
#define CAUSEWAY_NET_IMPL_HANDSHAKE_ACCEPTOR_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL handshake_acceptor::handshake_acceptor(asio::io_context& io, std::mutex& mutex,
                                                     std::unique_ptr<tcp::acceptor> acceptor,
                                                     const handshake_options& options, handshake_owner& owner)
    : io_{&io},
      mutex_{&mutex},
      accepting_{make_accepting(std::move(acceptor))},
      options_{options},
      owner_{&owner},
      informant_{options.pieces},
      strangers_{options.strangers},
      turned_away_{options.log} {}

CAUSEWAY_DECL void handshake_acceptor::send_away(const meeting_ptr& m) {
  refuse(m, fail(errc::too_large, "", "too many connections at once; try again"));
}

CAUSEWAY_DECL handshake_acceptor::meeting::meeting(asio::io_context& io) : deadline{io} {}

CAUSEWAY_DECL void handshake_acceptor::dial(const std::string& address) {
  if (over_ || is_dialling(address)) return;
  const auto target = parse_endpoint(address);
  if (!target) return owner_->unreachable(address, target.error());
  waiting_.push_back(address);
  dial_next();
}

CAUSEWAY_DECL void handshake_acceptor::dial_stream(const tcp::endpoint& at, const stream_request& which,
                                                   const link_key& ours) {
  if (over_) return;
  const meeting_ptr m = start_meeting();
  m->target = to_endpoint(at);
  m->stream = which;
  m->our_key = ours;
  call(m);
}

CAUSEWAY_DECL void handshake_acceptor::lock_up() {
  over_ = true;
  accepting_->stop();
  for (const auto& m : std::exchange(meetings_, {})) end(m);
  informant_.stop();
}

CAUSEWAY_DECL auto handshake_acceptor::start_meeting() -> meeting_ptr {
  const auto m = std::make_shared<meeting>(*io_);
  meetings_.insert(m);
  m->deadline.expires_after(options_.handshake);
  m->deadline.async_wait(completion{[this, m](std::error_code failure) {
    const std::lock_guard lock{*mutex_};
    if (!failure) give_up(m, fail(errc::timeout, name_of(*m), "the handshake was not over in time"));
  }});
  return m;
}

CAUSEWAY_DECL std::shared_ptr<accepting> handshake_acceptor::make_accepting(std::unique_ptr<tcp::acceptor> acceptor) {
  return std::make_shared<accepting>(
      *io_, std::move(acceptor),
      [this](tcp::socket socket) {
        const std::lock_guard lock{*mutex_};
        if (!over_) meet_stranger(std::move(socket));
      },
      [this](const std::string& why) {
        const std::lock_guard lock{*mutex_};
        if (over_) return;
        turned_away_.say(clock_.now(), "cannot accept connections for now: " + why);
        make_room();
      });
}

CAUSEWAY_DECL void handshake_acceptor::meet_stranger(tcp::socket socket) {
  std::error_code failure;
  const auto from = socket.remote_endpoint(failure).address();
  const bool scarce = spare_descriptors(socket.native_handle()) == 0;
  const auto who = std::make_shared<conversation>(std::move(socket));
  if (scarce && !make_room()) {
    turned_away_.say(clock_.now(), "refused " + who->remote() + ": " + no_descriptors("").message);
    return who->refuse(fail(errc::too_large, "", "this peer has as many connections as it may have; try another one"));
  }
  const meeting_ptr m = start_meeting();
  m->who = who;
  m->source = from.to_string();
  if (const auto goes = strangers_.enter(m, m->source)) send_away(*goes);
  watch(m);
  expect(m, &handshake_acceptor::hear_first);
}

CAUSEWAY_DECL bool handshake_acceptor::make_room() {
  const auto goes = strangers_.expel();
  if (goes) send_away(*goes);
  return goes.has_value();
}

CAUSEWAY_DECL void handshake_acceptor::hear_first(const meeting_ptr& m, const frame_header& h, frame_body body) {
  if (h.kind == frame_kind::ask) return inform(m, body);
  if (h.kind != frame_kind::meet && h.kind != frame_kind::stream) {
    return refuse(m, fail(errc::protocol, "",
                          "this address serves a run whose peers may come and go; join it with a fault policy other than "
                          "fail_stop"));
  }
  if (h.run_id != options_.run_id) return refuse(m, wrong_run());
  if (h.kind == frame_kind::stream) return hear_stream_request(m, body);
  if (auto why = understand(m, body)) return refuse(m, *why);
  strangers_.introduce(m);
  say_meet(m);
  agree(m);
}

CAUSEWAY_DECL void handshake_acceptor::inform(const meeting_ptr& m, frame_body body) {
  const conversation_ptr who = std::exchange(m->who, {});
  end(m);
  informant_.serve(who, options_.run_id, body);
}

CAUSEWAY_DECL void handshake_acceptor::hear_stream_request(const meeting_ptr& m, frame_body body) {
  const auto which = stream_request::decode(body);
  if (!which) return refuse(m, which.error());
  if (!owner_->wants_stream(*which)) return refuse(m, fail(errc::not_found, "", "this stream belongs to no link of ours"));
  strangers_.introduce(m);
  m->stream = *which;
  say(m, frame_kind::stream_ok, {}, [this, m] { hand_over_stream(m); });
}

CAUSEWAY_DECL bool handshake_acceptor::is_dialling(const std::string& address) const {
  if (std::find(waiting_.begin(), waiting_.end(), address) != waiting_.end()) return true;
  return std::any_of(meetings_.begin(), meetings_.end(), [&](const auto& m) { return m->dialled == address; });
}

CAUSEWAY_DECL void handshake_acceptor::dial_next() {
  const auto under_way = [this] {
    return std::count_if(meetings_.begin(), meetings_.end(), [](const auto& m) { return !m->dialled.empty(); });
  };
  while (!over_ && !waiting_.empty() && static_cast<std::size_t>(under_way()) < options_.dials) {
    const meeting_ptr m = start_meeting();
    m->dialled = std::move(waiting_.front());
    waiting_.pop_front();
    m->target = *parse_endpoint(m->dialled);
    call(m);
  }
}

CAUSEWAY_DECL void handshake_acceptor::call(const meeting_ptr& m, bool pause) {
  m->dialling = std::make_shared<dialer>(
      *io_, m->target,
      [this, m](const conversation_ptr& who) {
        const std::lock_guard lock{*mutex_};
        if (m->over || over_) return who->stop();
        greet(m, who);
      },
      [this, m](const error& why) {
        const std::lock_guard lock{*mutex_};
        lose(m, why);
      });
  pause ? m->dialling->dial_later() : m->dialling->dial();
}

CAUSEWAY_DECL void handshake_acceptor::greet(const meeting_ptr& m, const conversation_ptr& who) {
  m->who = who;
  if (spare_descriptors(who->descriptor()) == 0) return give_up(m, no_descriptors(name_of(*m)));
  watch(m);
  if (!m->stream) {
    say_meet(m);
    return expect(m, &handshake_acceptor::hear_meet);
  }
  say(m, frame_kind::stream, stream_request{m->our_key, m->stream->index}.encode());
  expect(m, &handshake_acceptor::hear_stream_ok);
}

CAUSEWAY_DECL void handshake_acceptor::hear_meet(const meeting_ptr& m, const frame_header& h, frame_body body) {
  if (h.kind == frame_kind::refused) return give_up(m, read_refusal(m->dialled, body));
  if (h.kind != frame_kind::meet) return give_up(m, fail(errc::protocol, m->dialled, "it answered out of turn"));
  if (h.run_id != options_.run_id) return give_up(m, fail(errc::wrong_run, m->dialled, "it belongs to another run"));
  if (auto why = understand(m, body)) return give_up(m, fail(why->code, m->dialled, why->message));
  agree(m);
}

CAUSEWAY_DECL void handshake_acceptor::hear_stream_ok(const meeting_ptr& m, const frame_header& h, frame_body body) {
  if (h.kind == frame_kind::stream_ok) return hand_over_stream(m);
  // The other side may not have taken the link yet: it learns of it on another connection.
  lose(m, h.kind == frame_kind::refused ? read_refusal(name_of(*m), body)
                                        : fail(errc::protocol, name_of(*m), "it answered out of turn"));
}

CAUSEWAY_DECL std::optional<error> handshake_acceptor::understand(const meeting_ptr& m, frame_body body) {
  auto them = introduction::decode(body);
  if (!them) return them.error();
  m->them = std::move(*them);
  std::error_code failure;
  if (m->them.host.empty()) m->them.host = m->who->socket().remote_endpoint(failure).address().to_string();
  return owner_->objection(m->them);
}

CAUSEWAY_DECL void handshake_acceptor::say_meet(const meeting_ptr& m) {
  m->us = owner_->introduce(m->who->socket(), spare_descriptors(m->who->descriptor()));
  m->us.nonce = hash_bytes(std::as_bytes(std::span{&++talks_, 1}), m->us.incarnation);
  say(m, frame_kind::meet, m->us.encode());
}

CAUSEWAY_DECL void handshake_acceptor::agree(const meeting_ptr& m) {
  if (m->us.id < m->them.id) return expect(m, &handshake_acceptor::hear_wish);
  if (!m->dialled.empty() && owner_->is_connected(m->them.id, m->them.incarnation)) return end(m);
  wish ours = owner_->wish_for(m->them);
  ours.nonce = m->them.nonce;
  say(m, frame_kind::want, ours.encode());
  expect(m, &handshake_acceptor::hear_decision);
}

CAUSEWAY_DECL void handshake_acceptor::hear_wish(const meeting_ptr& m, const frame_header& h, frame_body body) {
  const auto theirs = wish::decode(body);
  if (h.kind != frame_kind::want || !theirs || theirs->nonce != m->us.nonce) {
    return give_up(m, fail(errc::protocol, name_of(*m), "its answer does not belong to this handshake"));
  }
  const std::uint64_t serial = m->serial = owner_->choose(m->them, *theirs);
  say(m, frame_kind::take, decision{m->them.nonce, serial}.encode(),
      [this, m] { m->serial != 0 ? hand_over(m, std::exchange(m->serial, 0)) : end(m); });
}

CAUSEWAY_DECL void handshake_acceptor::hear_decision(const meeting_ptr& m, const frame_header& h, frame_body body) {
  const auto theirs = decision::decode(body);
  if (h.kind != frame_kind::take || !theirs || theirs->nonce != m->us.nonce) {
    return give_up(m, fail(errc::protocol, name_of(*m), "its answer does not belong to this handshake"));
  }
  if (theirs->serial != 0) return hand_over(m, theirs->serial);
  if (m->dialled.empty() || owner_->is_connected(m->them.id, m->them.incarnation)) return end(m);
  call_again(m);  // it believes in a connection that we have not; that one stands soon, or it notices
}

CAUSEWAY_DECL void handshake_acceptor::hand_over(const meeting_ptr& m, std::uint64_t serial) {
  tcp::socket socket = m->who->release();
  m->who.reset();
  end(m);
  owner_->take(m->us, m->them, serial, m->dialled, std::move(socket));
}

CAUSEWAY_DECL void handshake_acceptor::hand_over_stream(const meeting_ptr& m) {
  tcp::socket socket = m->who->release();
  m->who.reset();
  end(m);
  owner_->take_stream(*m->stream, std::move(socket));
}

CAUSEWAY_DECL bool handshake_acceptor::goes_on(const meeting& m) const { return !m.over && (!over_ || m.stream); }

CAUSEWAY_DECL void handshake_acceptor::expect(const meeting_ptr& m, step next) {
  m->who->next(options_.first_frames, options_.frame, [this, m, next](const frame_header& h, frame_body body) {
    const std::lock_guard lock{*mutex_};
    if (goes_on(*m)) (this->*next)(m, h, body);
  });
}

CAUSEWAY_DECL void handshake_acceptor::say(const meeting_ptr& m, frame_kind kind, frame_body body,
                                           const std::function<void()>& then) {
  std::function<void()> locked;
  if (then) {
    locked = [this, m, then] {
      const std::lock_guard lock{*mutex_};
      if (goes_on(*m)) then();
    };
  }
  m->who->say(kind, options_.run_id, 0, body, std::move(locked));
}

CAUSEWAY_DECL void handshake_acceptor::watch(const meeting_ptr& m) {
  m->who->on_end([this, m](const error& why) {
    const std::lock_guard lock{*mutex_};
    lose(m, why);
  });
}

CAUSEWAY_DECL void handshake_acceptor::refuse(const meeting_ptr& m, const error& why) {
  // A stream that comes before its link comes again: nothing to worry about.
  note(why.code == errc::not_found, "refused " + m->who->remote() + ": " + why.message);
  std::exchange(m->who, {})->refuse(why);
  end(m);
}

CAUSEWAY_DECL void handshake_acceptor::lose(const meeting_ptr& m, const error& why) {
  if (m->over || over_) return;
  const bool again = m->stream && m->target.port != 0 && owner_->wants_stream(*m->stream);
  again ? call_again(m) : give_up(m, why);
}

CAUSEWAY_DECL void handshake_acceptor::call_again(const meeting_ptr& m) {
  release_choice(m);
  if (m->who) std::exchange(m->who, {})->stop();
  call(m, true);
}

CAUSEWAY_DECL void handshake_acceptor::give_up(const meeting_ptr& m, const error& why) {
  if (m->over || over_) return;
  end(m);
  if (m->stream && m->target.port != 0) return owner_->lose_stream(*m->stream, why);
  if (!m->dialled.empty()) return owner_->unreachable(m->dialled, why);
  // A peer that has said who it is may hang up because another connection came first.
  note(m->them.id != 0, "dropped a connection during its handshake: " + why.text());
}

CAUSEWAY_DECL void handshake_acceptor::note(bool harmless, const std::string& line) {
  harmless ? options_.log(severity::debug, line) : turned_away_.say(clock_.now(), line);
}

CAUSEWAY_DECL void handshake_acceptor::end(const meeting_ptr& m) {
  if (m->over) return;
  m->over = true;
  release_choice(m);
  meetings_.erase(m);
  strangers_.leave(m);
  m->deadline.cancel();
  if (m->dialling) m->dialling->stop();
  if (m->who) m->who->stop();
  dial_next();
}

CAUSEWAY_DECL void handshake_acceptor::release_choice(const meeting_ptr& m) {
  if (m->serial != 0) owner_->give_back(m->them, std::exchange(m->serial, 0));
}

CAUSEWAY_DECL std::string handshake_acceptor::name_of(const meeting& m) {
  if (!m.dialled.empty()) return m.dialled;
  return m.target.port != 0 ? m.target.text() : m.source;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_HANDSHAKE_ACCEPTOR_IPP
#endif

// ---- causeway/net/impl/asio_core.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_CORE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_CORE_IPP

#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_LAZY basic_fabric_core<Whole>::basic_fabric_core(listener at, fabric_options options)
    : engine{std::move(at.port->io), options.run_id, static_cast<std::uint32_t>(options.id), options.transport},
      options_{std::move(options)},
      incarnation_{make_incarnation()},
      peers_{options_.id, incarnation_, options_.most_peers},
      handshakes_{loop_.io(), shared_.mutex, std::move(at.port->acceptor), handshake_settings(options_), *this},
      wake_timer_{loop_.io()} {
  shared_.owner = this;
  set_address(at.address());
  const std::lock_guard lock{shared_.mutex};
  run();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::attach(fabric_events* events) {
  std::unique_lock lock{shared_.mutex};
  events_ = events;
  if (events == nullptr) {
    queue_.clear();
    lock.unlock();
    return aside_.wait_idle();
  }
  if (!std::exchange(opened_, true)) in_loop([this] { handshakes_.open(); });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::dial(const std::string& to) {
  CAUSEWAY_EXPECT(is_inside());
  in_loop([this, to] {
    if (!stands(to)) handshakes_.dial(to);
  });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::close(peer_index peer, const std::string& why) {
  CAUSEWAY_EXPECT(is_inside());
  if (is_alive(peer)) links_[peer]->dismiss(fail(errc::peer_lost, links_[peer]->name(), why));
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::is_up(peer_index peer) const {
  CAUSEWAY_EXPECT(is_inside());
  return is_alive(peer) && peers_[peer].told;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::post(peer_index peer, std::vector<std::byte> message, bool bulk) {
  CAUSEWAY_EXPECT(message.size() <= max_post_bytes);
  if (is_up(peer)) links_[peer]->post(std::move(message), bulk);
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::wake_at(time_point when) {
  CAUSEWAY_EXPECT(is_inside());
  ++wake_round_;
  wake_timer_.cancel();
  wake_time_ = when;
  if (when != no_deadline) arm_wake();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::cancel_before(std::uint32_t epoch) {
  CAUSEWAY_EXPECT(is_inside());
  end_epochs_before(epoch);
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::aside(std::function<void()> work, std::function<void()> then) {
  CAUSEWAY_EXPECT(is_inside());
  aside_.push([this, work = std::move(work), then = std::move(then)] {
    work();
    const std::lock_guard lock{shared_.mutex};
    if (!closed_) tell({{}, [then](fabric_events&) { then(); }});
  });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::locked(const std::function<void()>& what) {
  const std::lock_guard lock{shared_.mutex};
  const inside_mark mark{*this};
  what();
  loop_.wake();
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::done(operation handle) const {
  return is_inside() ? shared_.operations.done(handle) : engine::done(handle);
}

CAUSEWAY_LAZY result<bool> basic_fabric_core<Whole>::block(const std::function<bool()>& done, time_point deadline) {
  std::unique_lock lock{shared_.mutex};
  bool is_done = false;
  loop_.drive(lock, deadline, [&] {
    const inside_mark mark{*this};
    is_done = done();
    return is_done || interrupted_ || closed_;
  });
  if (!is_done && (interrupted_ || closed_)) return fail(errc::cancelled, "fabric", "stopped on request");
  return is_done;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::close() {
  attach(nullptr);
  std::unique_lock lock{shared_.mutex};
  if (closed_) return;
  queue_.clear();
  handshakes_.shut();
  wake_timer_.cancel();
  shut_down(lock);
  lock.lock();
  handshakes_.lock_up();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::in_loop(std::function<void()> what) {
  asio::post(loop_.io(), std::function<void()>{[this, call = std::move(what)] {
               const std::lock_guard lock{shared_.mutex};
               if (!closed_) call();
             }});
}

CAUSEWAY_LAZY std::uint64_t basic_fabric_core<Whole>::make_incarnation() const {
  const auto now = shared_.clock.now().since_start.count();
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(this);
  return hasher{options_.id}.add_value(now).add_value(here).finish() | 1U;
}

CAUSEWAY_LAZY handshake_options basic_fabric_core<Whole>::handshake_settings(const fabric_options& options) {
  handshake_options settings = options.handshake;
  settings.run_id = options.run_id;
  settings.log = options.transport.log;
  return settings;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::set_address(const endpoint& bound) {
  const auto announced = parse_endpoint(options_.announce);
  if (announced && announced->port != 0) {
    announced_ = *announced;
  } else {
    const bool anywhere = bound.host == "0.0.0.0" || bound.host == "::";
    announced_ = {!options_.announce.empty() ? options_.announce : anywhere ? std::string{} : bound.host, bound.port};
  }
  std::error_code failure;
  const std::string host = announced_.host.empty() ? asio::ip::host_name(failure) : announced_.host;
  address_ = endpoint{host, announced_.port}.text();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::tell(event what) {
  if (events_ == nullptr) return;
  queue_.push_back(std::move(what));
  if (std::exchange(telling_, true)) return;
  in_loop([this] { tell_all(); });
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::tell_all() {
  const inside_mark mark{*this};
  while (!queue_.empty() && events_ != nullptr) {
    const event what = std::move(queue_.front());
    queue_.pop_front();
    try {
      what.tell(*events_);
    } catch (const std::bad_alloc&) {
      run_out_of_memory(what.about);
    }
  }
  telling_ = false;
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::run_out_of_memory(std::optional<peer_index> about) {
  if (!about) {
    wake_at(shared_.clock.now() + shared_.options.heartbeat);
  } else if (is_alive(*about)) {
    links_[*about]->lose(out_of_memory(links_[*about]->name()));
  }
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::hear_lost(peer_index peer, const error& why) {
  peers_[peer].told = false;  // what is posted before the owner hears of it is lost, as it would be a moment earlier
  tell({peer, [this, peer, why](fabric_events& to) {
          peers_[peer].told = false;
          to.on_down(peer, why);
        }});
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::hear_control(peer_index peer, control_message message) {
  tell({peer, [peer, shared = std::make_shared<control_message>(std::move(message))](fabric_events& to) {
          to.on_control(peer, shared->view());
        }});
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::unreachable(const std::string& where, const error& why) {
  tell({{}, [where, why](fabric_events& to) { to.on_unreachable(where, why); }});
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::arm_wake() {
  wake_timer_.expires_at(to_standard(wake_time_, shared_.clock.now()));
  wake_timer_.async_wait(completion{[this, round = wake_round_](std::error_code failure) {
    const std::lock_guard lock{shared_.mutex};
    if (failure || closed_ || round != wake_round_) return;
    if (shared_.clock.now() < wake_time_) return arm_wake();
    tell({{}, [this, round](fabric_events& to) {
            if (round == wake_round_) to.on_wake();
          }});
  }});
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::stands(const std::string& where) const {
  for (peer_index peer = 0; peer < peers_.size(); ++peer) {
    const roster::place& p = peers_[peer];
    if (is_alive(peer) && (p.address == where || p.aliases.contains(where))) return true;
  }
  return false;
}

CAUSEWAY_LAZY introduction basic_fabric_core<Whole>::introduce(const tcp::socket& to, std::size_t spare) {
  std::size_t streams = options_.streams_per_link;
  if (streams == 0) streams = is_loopback(to) || kernel_has_bbr() ? 1 : 16;
  streams = affordable_streams(std::min<std::size_t>(streams, most_data_streams), spare);
  introduction us;
  us.id = options_.id;
  us.incarnation = incarnation_;
  us.streams = static_cast<std::uint32_t>(streams);
  us.chunk = static_cast<std::uint32_t>(chunk_for(options_.transport.chunk_bytes, streams));
  us.host = announced_.host;
  us.port = announced_.port;
  return us;
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::kernel_has_bbr() {
  if (!has_bbr_) has_bbr_ = options_.transport.bbr && kernel_allows_bbr(loop_.io());
  return *has_bbr_;
}

CAUSEWAY_LAZY std::optional<error> basic_fabric_core<Whole>::objection(const introduction& them) {
  return peers_.objection(them, [this](peer_index peer) { return is_alive(peer); });
}

CAUSEWAY_LAZY bool basic_fabric_core<Whole>::is_connected(peer_id id, std::uint64_t incarnation) {
  const auto peer = peers_.find(id);
  return is_alive(peer) && peers_[*peer].incarnation == incarnation;
}

CAUSEWAY_LAZY std::uint64_t basic_fabric_core<Whole>::choose(const introduction& them, const wish& theirs) {
  return peers_.choose(them, theirs, is_alive(peers_.find(them.id)));
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::take(const introduction& us, const introduction& them, std::uint64_t serial,
                                                  const std::string& dialled, tcp::socket socket) {
  if (!peers_.claim(them.id, serial)) return;
  const auto place = peers_.place_for(them.id, [this](peer_index p) { return is_alive(p); });
  if (!place) return;  // others were quicker; it dials again
  const peer_index peer = *place;
  if (is_alive(peer)) {
    const bool restarted = peers_[peer].incarnation != them.incarnation;
    links_[peer]->lose(
        fail(errc::peer_lost, name_of(them.id), restarted ? "its program was started anew" : "it made a new connection"));
  }
  peers_.connected(peer, us, them, serial, dialled);
  std::error_code failure;
  const tcp::endpoint remote = socket.remote_endpoint(failure);
  open_link(peer, us, them, std::move(socket));
  if (!dialled.empty()) dial_streams(peer, remote);
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::open_link(peer_index peer, const introduction& us, const introduction& them,
                                                       tcp::socket socket) {
  link_identity who{.peer = peer,
                    .sender = static_cast<std::uint32_t>(them.id),
                    .name = name_of(them.id),
                    .chunk = us.chunk,
                    .their_chunk = them.chunk,
                    .control_apart = true};
  std::vector<tcp::socket> sockets;
  sockets.push_back(std::move(socket));
  auto made = std::make_unique<link>(shared_, std::move(who), std::move(sockets));
  for (const std::uint32_t epoch : past_.ends()) made->refuse_before(epoch);
  if (peer == links_.size()) {
    links_.push_back(std::move(made));
  } else {
    clear_graves();
    graves_.push_back(std::exchange(links_[peer], std::move(made)));
  }
  tell({peer, [this, peer, id = them.id, where = peers_[peer].address](fabric_events& to) {
          peers_[peer].told = true;
          to.on_up(peer, id, where);
        }});
  links_[peer]->start_reading();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::dial_streams(peer_index peer, const tcp::endpoint& remote) {
  const roster::place& p = peers_[peer];
  for (std::uint32_t index = 0; index < p.streams; ++index) {
    handshakes_.dial_stream(remote, {{p.id, p.incarnation, p.serial}, index}, {options_.id, incarnation_, p.serial});
  }
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::take_stream(const stream_request& which, tcp::socket socket) {
  const auto peer = peers_.lacking(which);
  if (!is_alive(peer)) return;
  peers_[*peer].streams_seen |= std::uint64_t{1} << which.index;
  links_[*peer]->add_stream(std::move(socket));
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::lose_stream(const stream_request& which, const error& why) {
  const auto peer = peers_.lacking(which);
  if (!is_alive(peer) || peers_[*peer].streams_seen != 0) return;  // if others stand, they carry its share
  links_[*peer]->lose(fail(errc::peer_lost, name_of(which.key.id), "no connection for data: " + why.text()));
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::tick(duration since) {
  for (const auto& l : graves_) l->tick(since);
  clear_graves();
  handshakes_.tick();
}

CAUSEWAY_LAZY void basic_fabric_core<Whole>::clear_graves() {
  std::erase_if(graves_, [](const auto& l) { return l->at_rest(); });
}

#ifdef CAUSEWAY_COMPILED
template class basic_fabric_core<void>;
#endif

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_CORE_IPP
#endif

// ---- causeway/net/asio_transport.hpp ----
#ifndef CAUSEWAY_NET_ASIO_TRANSPORT_HPP
#define CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// The Transport over TCP: the links of a mesh that stands, run by an engine. While the trainer's thread waits it does the
// input and output itself; while it computes, a background thread does (asio_engine.hpp).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
class mesh_engine;  // net/asio_mesh_engine.hpp
}

/// TCP to every other peer of a run; made by `host`, `join` and `connect_static` of net/rendezvous.hpp. Models Transport.
///
/// Threading: send, receive and wait come from one thread. `stats` and `describe_waits` may be called from any. Several
/// transports are independent of each other.
///
/// Memory: what arrives before its receive was started is kept, up to `unexpected_bytes` per peer. Beyond that we stop
/// reading from the peer while no receive from it is open; TCP then slows it down. While a receive is open we read on,
/// because its message may be behind the others, up to four times the limit; a peer that sends more is dropped. So the
/// trainer never waits for a message that we refuse to read.
class asio_transport {
 public:
  CAUSEWAY_DECL explicit asio_transport(std::shared_ptr<detail::mesh_engine> engine);

  CAUSEWAY_DECL [[nodiscard]] peer_index self() const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t size() const noexcept;

  /// Starts sending. Writes at once what the sockets take. Errors come from `wait`.
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);

  /// Starts receiving. A message whose receive was started before it arrives is read straight into `buffer`.
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);

  /// Blocks until the operation ended (see Transport). Deadlines are moments of `causeway::steady_clock`.
  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);
  CAUSEWAY_DECL [[nodiscard]] bool done(operation op) const;
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  /// One line per unfinished operation: whom it concerns, since when, how far it is. Empty when there is none.
  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

  /// TCP connections to a peer.
  CAUSEWAY_DECL [[nodiscard]] std::size_t streams(peer_index peer) const;

  /// Forgets kept messages of epochs before `epoch`. Call it when the membership moved on.
  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// Breaks the connection to a peer: what a membership does with a peer that it voted out. Its operations end with
  /// errc::peer_lost.
  CAUSEWAY_DECL void drop(peer_index peer, const std::string& why);

  /// A function that ends the trainer's wait, and all later ones, with errc::cancelled: what a signal's watcher calls. May
  /// be called from any thread, also when the transport is gone. Connections stay, so that `close` can flush.
  CAUSEWAY_DECL [[nodiscard]] std::function<void()> interrupter() const;

  /// Says goodbye to everybody, waits up to `close_grace` for theirs, and ends the background thread. Operations that
  /// were not waited for end with errc::cancelled. The destructor does the same.
  CAUSEWAY_DECL void close();

 private:
  std::shared_ptr<detail::mesh_engine> engine_;
};
static_assert(Transport<asio_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// ---- causeway/net/asio_mesh_engine.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_MESH_ENGINE_HPP
#define CAUSEWAY_NET_ASIO_MESH_ENGINE_HPP

// The engine behind net::asio_transport: the links of a mesh that stands.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Connected sockets to every other peer; the entry of the peer itself is empty. They live on `io`.
struct mesh {
  std::unique_ptr<asio::io_context> io;
  std::vector<std::vector<tcp::socket>> sockets;
};

/// Links between peers that all know each other by the same numbers; none is added later.
class mesh_engine final : public engine {
 public:
  CAUSEWAY_DECL mesh_engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options);
  ~mesh_engine() { close(); }

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  CAUSEWAY_DECL void close();

  CAUSEWAY_DECL void discard_before(std::uint32_t epoch);

  /// Breaks the connections to a peer without a goodbye, as a crash would.
  CAUSEWAY_DECL void drop(peer_index peer, const std::string& why);

 private:
  peer_index self_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_MESH_ENGINE_HPP
#endif

// ---- causeway/net/impl/asio_transport.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL asio_transport::asio_transport(std::shared_ptr<detail::mesh_engine> engine) : engine_{std::move(engine)} {}

CAUSEWAY_DECL operation asio_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return engine_->start({.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()});
}

CAUSEWAY_DECL operation asio_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return engine_->start({.is_send = false, .peer = from, .id = id, .target = buffer.data(), .length = buffer.size()});
}

CAUSEWAY_DECL peer_index asio_transport::self() const noexcept { return engine_->self(); }

CAUSEWAY_DECL std::uint32_t asio_transport::size() const noexcept { return engine_->size(); }

CAUSEWAY_DECL result<std::size_t> asio_transport::wait(operation op, time_point deadline) {
  return engine_->wait(op, deadline);
}

CAUSEWAY_DECL bool asio_transport::done(operation op) const { return engine_->done(op); }

CAUSEWAY_DECL bool asio_transport::wait_any(std::span<const operation> ops, time_point deadline) {
  return engine_->wait_any(ops, deadline);
}

CAUSEWAY_DECL traffic asio_transport::stats() const { return engine_->stats(); }

CAUSEWAY_DECL std::string asio_transport::describe_waits() const { return engine_->describe_waits(); }

CAUSEWAY_DECL std::size_t asio_transport::streams(peer_index peer) const { return engine_->streams(peer); }

CAUSEWAY_DECL void asio_transport::discard_before(std::uint32_t epoch) { engine_->discard_before(epoch); }

CAUSEWAY_DECL void asio_transport::drop(peer_index peer, const std::string& why) { engine_->drop(peer, why); }

CAUSEWAY_DECL void asio_transport::close() { engine_->close(); }

CAUSEWAY_DECL std::function<void()> asio_transport::interrupter() const {
  return [weak = std::weak_ptr{engine_}] {
    if (const auto engine = weak.lock()) engine->interrupt();
  };
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_ASIO_TRANSPORT_IPP
#endif

// ---- causeway/net/impl/asio_mesh_engine.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_MESH_ENGINE_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MESH_ENGINE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mesh_engine::mesh_engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options)
    : engine{std::move(connections.io), run_id, self, std::move(options)}, self_{self} {
  const std::lock_guard lock{shared_.mutex};
  links_.resize(connections.sockets.size());
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (peer == self) continue;
    auto& sockets = connections.sockets[peer];
    const auto number = static_cast<peer_index>(peer);
    const std::size_t chunk = chunk_for(shared_.options.chunk_bytes, sockets.size());
    links_[peer] =
        std::make_unique<link>(shared_, link_identity{number, number, peer_name(number), chunk, chunk}, std::move(sockets));
    links_[peer]->start_reading();
  }
  run();
}

CAUSEWAY_DECL void mesh_engine::close() {
  std::unique_lock lock{shared_.mutex};
  shut_down(lock);
}

CAUSEWAY_DECL void mesh_engine::discard_before(std::uint32_t epoch) {
  const std::lock_guard lock{shared_.mutex};
  for (const auto& l : links_) {
    if (l) l->discard_before(epoch);
  }
}

CAUSEWAY_DECL void mesh_engine::drop(peer_index peer, const std::string& why) {
  const std::lock_guard lock{shared_.mutex};
  if (peer < links_.size() && links_[peer]) links_[peer]->lose(fail(errc::peer_lost, peer_name(peer), why));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MESH_ENGINE_IPP
#endif

// ---- causeway/net/asio_greeting.hpp ----
#ifndef CAUSEWAY_NET_ASIO_GREETING_HPP
#define CAUSEWAY_NET_ASIO_GREETING_HPP

// What host and joiners tell each other before the links are made, and what all of them end up with.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

inline constexpr std::uint32_t most_peers = 1024;

/// A run's network, ready to train.
struct membership {
  asio_transport transport;
  std::uint64_t run_id = 0;
  std::vector<std::byte> welcome;   ///< what the host's program gave to `host`; empty with a static list
  std::vector<endpoint> addresses;  ///< of every peer, by index
};

inline constexpr std::size_t max_welcome_bytes = max_handshake_bytes;

namespace detail {

inline constexpr peer_index any_index = UINT32_MAX;
inline constexpr std::chrono::nanoseconds no_patience_limit = std::chrono::nanoseconds::max();

struct hello {
  std::uint64_t model_hash = 0;
  peer_index wanted = any_index;
  std::string announce;
  std::uint16_t port = 0;
  std::uint8_t has_bbr = 0;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<hello> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(model_hash, wanted, text{announce, 255}, port, has_bbr); }
};

/// Who is where. An empty host means the machine at which the reader reached the host of the run.
struct address_table {
  std::uint64_t token = 0;
  std::uint32_t streams = 0;
  std::vector<endpoint> addresses;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<address_table> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) {
    wire(token, streams, list{addresses, most_peers, [](auto& w, endpoint& e) { w(text{e.host, 255}, e.port); }});
  }
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_GREETING_HPP

// ---- causeway/net/impl/asio_greeting.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_GREETING_IPP
#define CAUSEWAY_NET_IMPL_ASIO_GREETING_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL std::vector<std::byte> hello::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<hello> hello::decode(std::span<const std::byte> bytes) { return decode_fields<hello>(bytes, "hello"); }

CAUSEWAY_DECL std::vector<std::byte> address_table::encode() const { return encode_fields(*this); }
CAUSEWAY_DECL result<address_table> address_table::decode(std::span<const std::byte> bytes) {
  return decode_fields<address_table>(bytes, "address table");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_GREETING_IPP
#endif

// ---- causeway/net/envelope.hpp ----
#ifndef CAUSEWAY_NET_ENVELOPE_HPP
#define CAUSEWAY_NET_ENVELOPE_HPP

// What all control messages between peers have in common: format, run, kind, fields. A message is a variant; the place of a
// kind in it is its number on the wire, so kinds are appended, never reordered.

#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace envelope {

/// A family of messages.
struct kind {
  std::string_view name;     ///< for errors: "swarm message"
  std::string_view differs;  ///< what else may differ where the run does: ", or of another model"
  std::uint8_t format = 1;
};

namespace detail {

template <std::size_t I = 0, class Message, class... Context>
void read_kind(byte_reader& in, std::size_t which, Message& m, const Context&... context) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (which != I) return read_kind<I + 1>(in, which, m, context...);
    get_fields(in, m.template emplace<I>(), context...);
  } else {
    in.refuse();
  }
}

}  // namespace detail

/// `context` is for those kinds whose `fields` take it.
template <class Message, class... Context>
[[nodiscard]] std::vector<std::byte> seal(const kind& k, std::uint64_t run, const Message& m, const Context&... context) {
  byte_writer out;
  out.put(k.format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit([&](const auto& which) { put_fields(out, which, context...); }, m);
  return std::move(out).take();
}

/// errc::version_mismatch, errc::wrong_run for another run's, errc::corrupt or errc::too_large for what no encoder makes.
template <class Message, class... Context>
[[nodiscard]] result<Message> open(const kind& k, std::uint64_t run, std::span<const std::byte> bytes,
                                   const Context&... context) {
  byte_reader in{bytes};
  if (in.get<std::uint8_t>() != k.format) {
    return fail(errc::version_mismatch, std::string{k.name}, "another format; all peers must run the same version");
  }
  if (in.get<std::uint64_t>() != run && in.ok()) {
    return fail(errc::wrong_run, std::string{k.name}, "it is of another run" + std::string{k.differs});
  }
  const auto which = in.get<std::uint8_t>();
  result<Message> m{Message{}};
  detail::read_kind(in, which, *m, context...);
  if (const auto end = in.finish(k.name); !end) return end.error();
  return m;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::envelope

#endif  // CAUSEWAY_NET_ENVELOPE_HPP

// ---- causeway/net/float_packing.hpp ----
#ifndef CAUSEWAY_NET_FLOAT_PACKING_HPP
#define CAUSEWAY_NET_FLOAT_PACKING_HPP

// Lossless packing of f32 values: parameters and optimizer moments in 80 to 84 % of their bytes. Their mantissas are noise,
// but of the 256 values that the top byte (sign and seven bits of the exponent) can have a tensor uses few, most of them
// seldom. So the top bytes get a Huffman code of their own in every block, and the other three travel as they are. A
// general compressor finds the same and not more, at a tenth of the speed.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Packs `in`, little-endian f32 values and what does not fill one behind them, into `out`, which is as long. Gives the
/// packed bytes' number; 0, and nothing of use in `out`, where that saves less than a thirty-second: of other data.
/// Cost: two passes over `in`, 2.6 GB/s on one core, 1.5 GB/s back. No memory.
CAUSEWAY_DECL [[nodiscard]] std::size_t pack_floats(std::span<const std::byte> in, std::span<std::byte> out);

/// The inverse: fills `out`. Any bytes may come: errc::corrupt where these are not the packed form of so many.
CAUSEWAY_DECL [[nodiscard]] result<void> unpack_floats(std::span<const std::byte> packed, std::span<std::byte> out);

namespace detail {

inline constexpr unsigned longest_code = 12;  ///< bits: a table of 4096 entries decodes
using code_lengths = std::array<std::uint8_t, 256>;

/// Of a Huffman code for symbols that occur so often; none longer than `longest_code`. 0: the symbol has no code.
CAUSEWAY_DECL [[nodiscard]] code_lengths huffman_lengths(std::array<std::uint32_t, 256> counts);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FLOAT_PACKING_HPP

// ---- causeway/net/impl/float_packing.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_FLOAT_PACKING_IPP
#define CAUSEWAY_NET_IMPL_FLOAT_PACKING_IPP

// Bodies of net/float_packing.hpp. A packed block: the lengths of the 256 codes in half bytes; the lower three bytes of
// each value; what does not fill a value; the codes of the top bytes, first bits lowest.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

inline constexpr std::size_t lengths_bytes = 128;

/// Canonical codes (shorter before longer, then by symbol), their bits reversed: the first to be read is the lowest.
struct huffman_codes {
  std::array<std::uint16_t, 256> bits{};

  explicit huffman_codes(const code_lengths& lengths) {
    unsigned code = 0;
    for (unsigned length = 1; length <= longest_code; ++length, code <<= 1U) {
      for (unsigned symbol = 0; symbol < 256; ++symbol) {
        if (lengths[symbol] != length) continue;
        for (unsigned b = 0; b < length; ++b)
          bits[symbol] |= static_cast<std::uint16_t>((code >> b & 1U) << (length - 1 - b));
        ++code;
      }
    }
  }
};

/// Whether the lengths are those of a Huffman code: no two codes begin alike, and nothing could be added to them, unless it
/// is one code of one bit.
inline bool is_code(const code_lengths& lengths) {
  std::size_t used = 0, codes = 0;
  for (const unsigned length : lengths) {
    if (length > longest_code) return false;
    if (length == 0) continue;
    used += std::size_t{1} << (longest_code - length);
    ++codes;
  }
  return used == std::size_t{1} << (codes == 1 ? longest_code - 1 : longest_code);
}

inline std::size_t packed_size(const code_lengths& lengths, const std::array<std::uint32_t, 256>& counts,
                               std::size_t size) {
  std::uint64_t code_bits = 0;
  for (std::size_t s = 0; s < 256; ++s) code_bits += std::uint64_t{lengths[s]} * counts[s];
  return lengths_bytes + size / 4 * 3 + size % 4 + static_cast<std::size_t>((code_bits + 7) / 8);
}

CAUSEWAY_DECL code_lengths huffman_lengths(std::array<std::uint32_t, 256> counts) {
  for (;;) {
    // Nodes: 256 leaves, then what was merged. The two lightest become one until a single one is left.
    std::array<std::uint64_t, 511> weight{};
    std::array<std::uint16_t, 511> parent{};
    std::array<std::uint16_t, 256> heap{};
    std::size_t size = 0;
    const auto heavier = [&](std::uint16_t a, std::uint16_t b) {
      return weight[a] != weight[b] ? weight[a] > weight[b] : a > b;
    };
    for (std::uint16_t s = 0; s < 256; ++s) {
      if ((weight[s] = counts[s]) > 0) heap[size++] = s;
    }
    code_lengths lengths{};
    if (size == 0) return lengths;
    if (size == 1) {
      lengths[heap[0]] = 1;
      return lengths;
    }
    std::make_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(size), heavier);
    const auto take = [&] {
      std::pop_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(size), heavier);
      return heap[--size];
    };
    std::uint16_t next = 256;
    for (; size > 1; ++next) {
      const std::uint16_t a = take(), b = take();
      weight[next] = weight[a] + weight[b];
      parent[a] = parent[b] = next;
      heap[size++] = next;
      std::push_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(size), heavier);
    }
    unsigned longest = 0;
    for (std::size_t s = 0; s < 256; ++s) {
      if (counts[s] == 0) continue;
      unsigned depth = 0;
      for (std::size_t n = s; n + 1 != next; n = parent[n]) ++depth;
      lengths[s] = static_cast<std::uint8_t>(std::min(depth, 255U));
      longest = std::max(longest, depth);
    }
    if (longest <= longest_code) return lengths;
    for (std::uint32_t& c : counts) c = (c + 1) / 2;  // flatter: in the end all are 1 and no code is longer than 8
  }
}

}  // namespace detail

CAUSEWAY_DECL std::size_t pack_floats(std::span<const std::byte> in, std::span<std::byte> out) {
  const std::size_t values = in.size() / 4, rest = in.size() % 4;
  // Four tables: consecutive values have equal top bytes so often that one would wait for its own last store.
  std::array<std::array<std::uint32_t, 256>, 4> partly{};
  for (std::size_t i = 0; i < values; ++i) ++partly[i % 4][std::to_integer<std::size_t>(in[4 * i + 3])];
  std::array<std::uint32_t, 256> counts{};
  for (std::size_t s = 0; s < 256; ++s) counts[s] = partly[0][s] + partly[1][s] + partly[2][s] + partly[3][s];
  const auto lengths = detail::huffman_lengths(counts);
  const std::size_t size = detail::packed_size(lengths, counts, in.size());
  if (size > in.size() - in.size() / 32 || size > out.size()) return 0;

  const detail::huffman_codes codes{lengths};
  for (std::size_t i = 0; i < detail::lengths_bytes; ++i) {
    out[i] = static_cast<std::byte>(lengths[2 * i] | lengths[2 * i + 1] << 4U);
  }
  std::byte* low = out.data() + detail::lengths_bytes;
  std::byte* top = low + 3 * values + rest;
  std::uint64_t bits = 0;
  unsigned filled = 0;
  for (std::size_t i = 0; i < values; ++i, low += 3) {
    std::memcpy(low, in.data() + 4 * i, 3);
    const auto symbol = std::to_integer<std::size_t>(in[4 * i + 3]);
    bits |= std::uint64_t{codes.bits[symbol]} << filled;
    filled += lengths[symbol];
    for (; filled >= 8; filled -= 8, bits >>= 8U) *top++ = static_cast<std::byte>(bits & 0xFFU);
  }
  if (rest > 0) std::memcpy(low, in.data() + 4 * values, rest);
  if (filled > 0) *top = static_cast<std::byte>(bits);
  return size;
}

CAUSEWAY_DECL result<void> unpack_floats(std::span<const std::byte> packed, std::span<std::byte> out) {
  const std::size_t values = out.size() / 4, rest = out.size() % 4, low_bytes = 3 * values + rest;
  const auto corrupt = [] {
    return fail(errc::corrupt, "packed floats", "these bytes are not the packed form of as many");
  };
  if (packed.size() < detail::lengths_bytes + low_bytes) return corrupt();
  detail::code_lengths lengths{};
  for (std::size_t i = 0; i < detail::lengths_bytes; ++i) {
    lengths[2 * i] = std::to_integer<std::uint8_t>(packed[i] & std::byte{0xF});
    lengths[2 * i + 1] = std::to_integer<std::uint8_t>(packed[i] >> 4);
  }
  if (!detail::is_code(lengths)) return corrupt();

  struct entry {
    std::uint8_t symbol = 0, length = 0;  // length 0: no code begins so
  };
  std::array<entry, std::size_t{1} << detail::longest_code> table{};
  const detail::huffman_codes codes{lengths};
  for (unsigned s = 0; s < 256; ++s) {
    if (lengths[s] == 0) continue;
    for (std::size_t at = codes.bits[s]; at < table.size(); at += std::size_t{1} << lengths[s]) {
      table[at] = {static_cast<std::uint8_t>(s), lengths[s]};
    }
  }

  const std::byte* low = packed.data() + detail::lengths_bytes;
  const std::byte* top = low + low_bytes;
  const std::byte* const end = packed.data() + packed.size();
  std::uint64_t bits = 0;
  unsigned filled = 0;
  for (std::size_t i = 0; i < values; ++i, low += 3) {
    for (; filled < detail::longest_code && top != end; filled += 8)
      bits |= std::to_integer<std::uint64_t>(*top++) << filled;
    const entry e = table[bits & (table.size() - 1)];
    if (e.length == 0 || e.length > filled) return corrupt();
    bits >>= e.length;
    filled -= e.length;
    std::memcpy(out.data() + 4 * i, low, 3);
    out[4 * i + 3] = std::byte{e.symbol};
  }
  if (top != end || filled >= 8 || bits != 0) return corrupt();
  if (rest > 0) std::memcpy(out.data() + 4 * values, low, rest);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_FLOAT_PACKING_IPP
#endif

// ---- causeway/net/link_transport.hpp ----
#ifndef CAUSEWAY_NET_LINK_TRANSPORT_HPP
#define CAUSEWAY_NET_LINK_TRANSPORT_HPP

// Some links of a fabric as a Transport: the peers of one view, ranked 0 to size-1, as collectives want them. Every message
// carries the epoch of the view, whatever epoch the caller wrote, so that nothing of an earlier view is taken for ours.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Models Transport. Threading: as the fabric's `send`, `receive` and `wait`, from the trainer's thread alone. Operations
/// that are still open when it goes away belong to the fabric, as their buffers do: end them with fabric::cancel_before.
/// Errors name the fabric's peer, not the rank: a peer's name outlives the view.
class link_transport {
 public:
  /// `link_of_rank[r]` is the link of rank r; the entry of `self_rank` is never looked at.
  CAUSEWAY_DECL link_transport(std::shared_ptr<fabric> over, std::vector<peer_index> link_of_rank, peer_index self_rank,
                               std::uint32_t epoch);

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);

  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);

  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);

  [[nodiscard]] bool done(operation op) const { return op == no_operation || fabric_->done(op); }
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);

  /// Of the whole fabric: control messages and other views count too.
  [[nodiscard]] traffic stats() const { return fabric_->stats(); }

 private:
  static constexpr operation no_operation = 0;

  [[nodiscard]] bool is_other(peer_index rank) const noexcept { return rank < links_.size() && rank != self_; }

  CAUSEWAY_DECL [[nodiscard]] message_id of_this_view(message_id id) const noexcept;

  std::shared_ptr<fabric> fabric_;
  std::vector<peer_index> links_;
  peer_index self_;
  std::uint32_t epoch_;
};
static_assert(Transport<link_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_LINK_TRANSPORT_HPP

// ---- causeway/net/impl/link_transport.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_LINK_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_LINK_TRANSPORT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL link_transport::link_transport(std::shared_ptr<fabric> over, std::vector<peer_index> link_of_rank,
                                             peer_index self_rank, std::uint32_t epoch)
    : fabric_{std::move(over)}, links_{std::move(link_of_rank)}, self_{self_rank}, epoch_{epoch} {
  CAUSEWAY_EXPECT(fabric_ != nullptr);
  CAUSEWAY_EXPECT(self_ < links_.size());
}

CAUSEWAY_DECL operation link_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return is_other(to) ? fabric_->send(links_[to], of_this_view(id), bytes) : no_operation;
}

CAUSEWAY_DECL operation link_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return is_other(from) ? fabric_->receive(links_[from], of_this_view(id), buffer) : no_operation;
}

CAUSEWAY_DECL result<std::size_t> link_transport::wait(operation op, time_point deadline) {
  if (op == no_operation) return fail(errc::invalid_argument, "view", "there is no such other rank");
  return fabric_->wait(op, deadline);
}

CAUSEWAY_DECL bool link_transport::wait_any(std::span<const operation> ops, time_point deadline) {
  const auto ended = [&] { return std::any_of(ops.begin(), ops.end(), [&](operation op) { return done(op); }); };
  return fabric_->block(ended, deadline).value_or(false);
}

CAUSEWAY_DECL message_id link_transport::of_this_view(message_id id) const noexcept {
  id.epoch = epoch_;
  return id;
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_LINK_TRANSPORT_IPP
#endif

// ---- causeway/net/memory_transport.hpp ----
#ifndef CAUSEWAY_NET_MEMORY_TRANSPORT_HPP
#define CAUSEWAY_NET_MEMORY_TRANSPORT_HPP

// A network inside one process: every peer is a thread, a message is a copy. It keeps the contract of net/transport.hpp to
// the letter (order, kept messages, refused parents, deadlines, lost peers), counts bytes as if they were framed, and can
// be told to fail at the n-th operation of a peer. Made for tests, examples and measurements of everything above sockets.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct memory_options {
  any_clock clock{};                                ///< what deadlines are measured on
  std::size_t kept_bytes = std::size_t{64} << 20U;  ///< per receiver: bytes of messages kept before their receive is
                                                    ///< started. 0: a send ends only when the receiver takes it
  std::size_t header_bytes = 64;                    ///< what one message adds to the byte counters
};

namespace detail {

/// All state of a memory network, behind one mutex.
class memory_hub {
 public:
  CAUSEWAY_DECL memory_hub(std::uint32_t peers, memory_options options);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(peers_.size()); }

  CAUSEWAY_DECL operation start(peer_index self, peer_index other, const message_id& id, std::span<const std::byte> out,
                                std::span<std::byte> in, bool is_send);

  CAUSEWAY_DECL result<std::size_t> wait(peer_index self, operation wanted, time_point deadline);

  CAUSEWAY_DECL [[nodiscard]] bool done(peer_index self, operation wanted) const;

  CAUSEWAY_DECL bool wait_any(peer_index self, std::span<const operation> wanted, time_point deadline);

  CAUSEWAY_DECL void lost(peer_index peer);

  CAUSEWAY_DECL void join(peer_index peer);

  CAUSEWAY_DECL void leave(peer_index peer);

  CAUSEWAY_DECL [[nodiscard]] traffic stats(peer_index self) const;

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t operations(peer_index peer) const;

  enum class effect : std::uint8_t { fail, kill };

  CAUSEWAY_DECL void plan(peer_index peer, std::uint64_t nth, effect what, errc code);

 private:
  struct fault {
    std::uint64_t nth = 0;
    effect what = effect::fail;
    errc code = errc::peer_lost;
  };

  struct pending {
    operation number = 0;
    peer_index other = 0;
    message_id id;
    std::span<const std::byte> out;
    std::span<std::byte> in;
    bool is_send = false;
    std::optional<result<std::size_t>> done{};

    CAUSEWAY_DECL void end(result<std::size_t> outcome);
    [[nodiscard]] bool open() const { return !done; }
  };

  struct message {
    peer_index from = 0;
    message_id id;
    std::vector<std::byte> bytes;
  };

  struct peer_state {
    bool alive = true;  // a peer counts as alive before it has joined, so that threads may start in any order
    bool taken = false;
    operation last = 0;
    std::uint64_t operations = 0;
    std::vector<pending> started;
    std::deque<message> kept;
    std::size_t kept_size = 0;
    std::vector<fault> faults;
    traffic counters;
    std::condition_variable changed;
  };

  CAUSEWAY_DECL static void look_again_later(std::unique_lock<std::mutex>& lock, peer_state& me, duration most);

  CAUSEWAY_DECL static bool ended(const peer_state& me, operation wanted);

  static std::string name(peer_index peer) { return "peer " + std::to_string(peer); }

  // The parent is not part of the match: a message about another parent must be refused, not overlooked.
  CAUSEWAY_DECL static bool matches(const message_id& a, const message_id& b);

  CAUSEWAY_DECL static const fault* planned_fault(const peer_state& s);

  CAUSEWAY_DECL static operation refuse(peer_state& me, peer_index other, const char* why);

  CAUSEWAY_DECL void begin_send(peer_index self, pending& op);

  CAUSEWAY_DECL void begin_receive(peer_index self, pending& op);

  // Copies one message into a started receive, or refuses it.
  CAUSEWAY_DECL void deliver(peer_index from, const message_id& id, std::span<const std::byte> bytes, peer_index to,
                             pending& receive);

  CAUSEWAY_DECL void keep_if_room(peer_index self, pending& op);

  CAUSEWAY_DECL void admit_senders(peer_index receiver);

  CAUSEWAY_DECL void count_sent(peer_index from, std::size_t payload);

  CAUSEWAY_DECL void count_received(peer_index to, std::size_t payload);

  // Messages that the peer had sent stay readable, as bytes in a socket do.
  CAUSEWAY_DECL void lose(peer_index peer);

  memory_options options_;
  mutable std::mutex mutex_;
  std::deque<peer_state> peers_;  // not a vector: an element does not move
};

}  // namespace detail

/// One peer's end of a memory_network. Movable; its destruction closes the peer's connections.
class memory_transport {
 public:
  CAUSEWAY_DECL memory_transport(std::shared_ptr<detail::memory_hub> hub, peer_index self);
  memory_transport(memory_transport&&) noexcept = default;
  memory_transport& operator=(memory_transport&& other) noexcept;
  ~memory_transport();

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  /// errc::invalid_argument: the operation was waited for before, or names the peer itself. Other errors: see Transport.
  result<std::size_t> wait(operation op, time_point deadline) { return hub_->wait(self_, op, deadline); }
  [[nodiscard]] bool done(operation op) const { return hub_->done(self_, op); }
  bool wait_any(std::span<const operation> ops, time_point deadline) { return hub_->wait_any(self_, ops, deadline); }
  [[nodiscard]] traffic stats() const { return hub_->stats(self_); }

 private:
  std::shared_ptr<detail::memory_hub> hub_;
  peer_index self_;
};
static_assert(Transport<memory_transport>);

/// `peers` peers that can talk to each other. Copies share the network. Every peer may live on a thread of its own; the
/// fault hooks may be called from any thread. "The n-th operation" counts the sends and receives that a peer starts, from
/// 0.
class memory_network {
 public:
  CAUSEWAY_DECL explicit memory_network(std::uint32_t peers, memory_options options = {});

  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  /// The end of one peer; one at a time per peer. Asking again after it was destroyed or killed is a restart: an empty
  /// mailbox, operations counted from 0 again.
  CAUSEWAY_DECL [[nodiscard]] memory_transport transport(peer_index peer) const;

  /// Ends all connections of a peer at once, as if its machine had died.
  void kill(peer_index peer) const { hub_->lost(peer); }

  /// The n-th operation of `peer` is not carried out: waiting for it gives `code`.
  CAUSEWAY_DECL void fail_at(peer_index peer, std::uint64_t nth, errc code) const;
  /// The peer dies when it starts its n-th operation.
  CAUSEWAY_DECL void kill_at(peer_index peer, std::uint64_t nth) const;

  /// Sends and receives that a peer has started.
  [[nodiscard]] std::uint64_t operations(peer_index peer) const { return hub_->operations(peer); }

 private:
  std::shared_ptr<detail::memory_hub> hub_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MEMORY_TRANSPORT_HPP

// ---- causeway/net/impl/memory_transport.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_MEMORY_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_MEMORY_TRANSPORT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL void memory_hub::pending::end(result<std::size_t> outcome) { done.emplace(std::move(outcome)); }

CAUSEWAY_DECL memory_hub::memory_hub(std::uint32_t peers, memory_options options)
    : options_{std::move(options)}, peers_(peers) {}

CAUSEWAY_DECL operation memory_hub::start(peer_index self, peer_index other, const message_id& id,
                                          std::span<const std::byte> out, std::span<std::byte> in, bool is_send) {
  const std::lock_guard lock{mutex_};
  peer_state& me = peers_[self];
  if (peer_index{self} == other || other >= size()) return refuse(me, other, "no such peer, or the peer itself");
  const fault* planned = planned_fault(me);
  ++me.operations;
  if (planned != nullptr && planned->what == effect::kill) lose(self);
  pending op{++me.last, other, id, out, in, is_send};
  if (!me.alive) {
    op.end(fail(errc::peer_lost, name(self), "this peer was stopped; restart it to go on"));
  } else if (planned != nullptr) {
    op.end(fail(planned->code, name(other), "failed on request of the test"));
  }
  me.started.push_back(std::move(op));
  if (is_send) begin_send(self, me.started.back());
  if (!is_send) begin_receive(self, me.started.back());
  return me.last;
}

CAUSEWAY_DECL result<std::size_t> memory_hub::wait(peer_index self, operation wanted, time_point deadline) {
  std::unique_lock lock{mutex_};
  peer_state& me = peers_[self];
  for (;;) {
    const auto op = std::find_if(me.started.begin(), me.started.end(), [&](auto& p) { return p.number == wanted; });
    if (op == me.started.end()) {
      return fail(errc::invalid_argument, name(self), "waited for an operation that is not under way");
    }
    if (op->done) {
      result<std::size_t> outcome = std::move(*op->done);
      me.started.erase(op);
      return outcome;
    }
    const time_point now = options_.clock.now();
    if (now >= deadline) {
      const peer_index other = op->other;
      me.started.erase(op);
      return fail(errc::timeout, name(other), "no answer before the deadline; raise it or look at that peer");
    }
    look_again_later(lock, me, deadline - now);
  }
}

// The clock may be a virtual one that nobody tells us about: look at it again after a moment.
CAUSEWAY_DECL void memory_hub::look_again_later(std::unique_lock<std::mutex>& lock, peer_state& me, duration most) {
  me.changed.wait_for(lock, std::min<duration>(most, std::chrono::milliseconds{2}));
}

CAUSEWAY_DECL bool memory_hub::ended(const peer_state& me, operation wanted) {
  const auto op = std::find_if(me.started.begin(), me.started.end(), [&](auto& p) { return p.number == wanted; });
  return op == me.started.end() || op->done.has_value();
}

CAUSEWAY_DECL bool memory_hub::done(peer_index self, operation wanted) const {
  const std::lock_guard lock{mutex_};
  return ended(peers_[self], wanted);
}

CAUSEWAY_DECL bool memory_hub::wait_any(peer_index self, std::span<const operation> wanted, time_point deadline) {
  std::unique_lock lock{mutex_};
  peer_state& me = peers_[self];
  for (;;) {
    if (std::any_of(wanted.begin(), wanted.end(), [&](operation op) { return ended(me, op); })) return true;
    const time_point now = options_.clock.now();
    if (now >= deadline) return false;
    look_again_later(lock, me, deadline - now);
  }
}

CAUSEWAY_DECL void memory_hub::lost(peer_index peer) {
  const std::lock_guard lock{mutex_};
  lose(peer);
}

CAUSEWAY_DECL void memory_hub::join(peer_index peer) {
  const std::lock_guard lock{mutex_};
  peer_state& s = peers_[peer];
  CAUSEWAY_EXPECT(!s.taken);
  if (!s.alive) {  // a restart
    s.kept.clear();
    s.kept_size = 0;
    s.started.clear();
    s.operations = 0;
  }
  s.alive = s.taken = true;
}

CAUSEWAY_DECL void memory_hub::leave(peer_index peer) {
  const std::lock_guard lock{mutex_};
  lose(peer);
  peers_[peer].started.clear();
  peers_[peer].taken = false;
}

CAUSEWAY_DECL traffic memory_hub::stats(peer_index self) const {
  const std::lock_guard lock{mutex_};
  return peers_[self].counters;
}

CAUSEWAY_DECL std::uint64_t memory_hub::operations(peer_index peer) const {
  const std::lock_guard lock{mutex_};
  return peers_[peer].operations;
}

CAUSEWAY_DECL void memory_hub::plan(peer_index peer, std::uint64_t nth, effect what, errc code) {
  const std::lock_guard lock{mutex_};
  peers_[peer].faults.push_back({nth, what, code});
}

CAUSEWAY_DECL bool memory_hub::matches(const message_id& a, const message_id& b) {
  return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
}

CAUSEWAY_DECL auto memory_hub::planned_fault(const peer_state& s) -> const fault* {
  for (const fault& f : s.faults) {
    if (f.nth == s.operations) return &f;
  }
  return nullptr;
}

CAUSEWAY_DECL operation memory_hub::refuse(peer_state& me, peer_index other, const char* why) {
  pending op{++me.last, other, {}, {}, {}, false};
  op.end(fail(errc::invalid_argument, name(other), why));
  me.started.push_back(std::move(op));
  return me.last;
}

CAUSEWAY_DECL void memory_hub::begin_send(peer_index self, pending& op) {
  if (!op.open()) return;
  peer_state& to = peers_[op.other];
  if (!to.alive) return op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
  for (pending& r : to.started) {
    if (r.is_send || !r.open() || r.other != self || !matches(r.id, op.id)) continue;
    deliver(self, op.id, op.out, op.other, r);
    count_sent(self, op.out.size());
    op.end(op.out.size());
    return;
  }
  keep_if_room(self, op);
}

CAUSEWAY_DECL void memory_hub::begin_receive(peer_index self, pending& op) {
  if (!op.open()) return;
  peer_state& me = peers_[self];
  const auto kept = std::find_if(me.kept.begin(), me.kept.end(),
                                 [&](const message& m) { return m.from == op.other && matches(m.id, op.id); });
  if (kept != me.kept.end()) {
    deliver(kept->from, kept->id, kept->bytes, self, op);
    me.kept_size -= kept->bytes.size();
    me.kept.erase(kept);
    admit_senders(self);
    return;
  }
  for (pending& s : peers_[op.other].started) {  // senders that found no room
    if (!s.is_send || !s.open() || s.other != self || !matches(s.id, op.id)) continue;
    deliver(op.other, s.id, s.out, self, op);
    count_sent(op.other, s.out.size());
    s.end(s.out.size());
    peers_[op.other].changed.notify_all();
    return;
  }
  if (!peers_[op.other].alive) op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
}

CAUSEWAY_DECL void memory_hub::deliver(peer_index from, const message_id& id, std::span<const std::byte> bytes,
                                       peer_index to, pending& receive) {
  count_received(to, bytes.size());
  peers_[to].changed.notify_all();
  if (id.parent != receive.id.parent) {
    ++peers_[to].counters.frames_rejected;
    return receive.end(fail(errc::wrong_parent, name(from), "its message is based on another committed state than ours"));
  }
  if (bytes.size() > receive.in.size()) {
    ++peers_[to].counters.frames_rejected;
    return receive.end(fail(errc::too_large, name(from),
                            "it sent " + std::to_string(bytes.size()) + " bytes where at most " +
                                std::to_string(receive.in.size()) + " are expected"));
  }
  if (!bytes.empty()) std::memcpy(receive.in.data(), bytes.data(), bytes.size());
  receive.end(bytes.size());
}

CAUSEWAY_DECL void memory_hub::keep_if_room(peer_index self, pending& op) {
  peer_state& to = peers_[op.other];
  if (to.kept_size + op.out.size() > options_.kept_bytes) return;
  for (const pending& s : peers_[self].started) {  // must not overtake an earlier send that waits for room
    if (s.number < op.number && s.is_send && s.open() && s.other == op.other && matches(s.id, op.id)) return;
  }
  to.kept.push_back({self, op.id, {op.out.begin(), op.out.end()}});
  to.kept_size += op.out.size();
  count_sent(self, op.out.size());
  op.end(op.out.size());
  peers_[self].changed.notify_all();
}

CAUSEWAY_DECL void memory_hub::admit_senders(peer_index receiver) {
  for (peer_index p = 0; p < size(); ++p) {
    for (pending& s : peers_[p].started) {
      if (s.is_send && s.open() && s.other == receiver) keep_if_room(p, s);
    }
  }
}

CAUSEWAY_DECL void memory_hub::count_sent(peer_index from, std::size_t payload) {
  peers_[from].counters.bytes_sent += payload + options_.header_bytes;
  ++peers_[from].counters.frames_sent;
}

CAUSEWAY_DECL void memory_hub::count_received(peer_index to, std::size_t payload) {
  peers_[to].counters.bytes_received += payload + options_.header_bytes;
  ++peers_[to].counters.frames_received;
}

CAUSEWAY_DECL void memory_hub::lose(peer_index peer) {
  peers_[peer].alive = false;
  for (peer_index p = 0; p < size(); ++p) {
    for (pending& op : peers_[p].started) {
      if (op.done || (p != peer && op.other != peer)) continue;
      const peer_index gone = p == peer ? p : op.other;
      op.end(fail(errc::peer_lost, name(gone), "the connection to it has ended"));
    }
    peers_[p].changed.notify_all();
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL memory_transport::memory_transport(std::shared_ptr<detail::memory_hub> hub, peer_index self)
    : hub_{std::move(hub)}, self_{self} {
  hub_->join(self_);
}

CAUSEWAY_INLINE memory_transport& memory_transport::operator=(memory_transport&& other) noexcept {
  std::swap(hub_, other.hub_);
  std::swap(self_, other.self_);
  return *this;
}

CAUSEWAY_INLINE memory_transport::~memory_transport() {
  if (hub_) hub_->leave(self_);
}

CAUSEWAY_DECL operation memory_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return hub_->start(self_, to, id, bytes, {}, true);
}

CAUSEWAY_DECL operation memory_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return hub_->start(self_, from, id, {}, buffer, false);
}

CAUSEWAY_DECL memory_network::memory_network(std::uint32_t peers, memory_options options)
    : hub_{std::make_shared<detail::memory_hub>(peers, std::move(options))} {}

CAUSEWAY_DECL memory_transport memory_network::transport(peer_index peer) const { return {hub_, peer}; }

CAUSEWAY_DECL void memory_network::fail_at(peer_index peer, std::uint64_t nth, errc code) const {
  hub_->plan(peer, nth, detail::memory_hub::effect::fail, code);
}

CAUSEWAY_DECL void memory_network::kill_at(peer_index peer, std::uint64_t nth) const {
  hub_->plan(peer, nth, detail::memory_hub::effect::kill, errc::peer_lost);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_MEMORY_TRANSPORT_IPP
#endif

// ---- causeway/net/mpi_options.hpp ----
#ifndef CAUSEWAY_NET_MPI_OPTIONS_HPP
#define CAUSEWAY_NET_MPI_OPTIONS_HPP

// What a transport over MPI may be told.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct mpi_transport_options {
  std::size_t inline_bytes = std::size_t{4} << 10U;  ///< longest content that is copied beside its name; equal on all ranks
  std::size_t kept_bytes = std::size_t{64}
                           << 20U;  ///< of messages taken before their receive is started; more stays with the senders
  duration close_grace = std::chrono::seconds{2};  ///< how long MPI may take for bytes that are already moving when a
                                                   ///< deadline passes, or at the end
  /// Plain sums of f32 over all ranks are MPI_Iallreduce's, whose order is MPI's: with more than two ranks the last bits
  /// may be others than those of TCP. false: messages carry them, with the bits of any network. Equal on all ranks.
  bool own_sums = true;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MPI_OPTIONS_HPP

// ---- causeway/net/rendezvous.hpp ----
#ifndef CAUSEWAY_NET_RENDEZVOUS_HPP
#define CAUSEWAY_NET_RENDEZVOUS_HPP

// How peers find each other. The first peer hosts: it listens, seats whoever joins, hands out indices and everybody's
// address, and all build the full mesh of links. Or each is given the static list of addresses. Nothing is printed; the
// caller shows `listener::address()` in its join command. Every refusal says what to do about it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Serves a run at `at` until `peers` peers (ourselves included) are in and connected. `welcome` reaches every joiner.
/// Blocks until then, the deadline (errc::timeout), or a stop (errc::cancelled).
CAUSEWAY_DECL result<membership> host(listener at, std::uint32_t peers, std::span<const std::byte> welcome,
                                      const rendezvous_options& options);

/// Joins the run served at `address`. Dials again until the deadline while nobody listens there yet.
CAUSEWAY_DECL result<membership> join(const endpoint& address, const rendezvous_options& options);

/// Connects peers that all have the same list of addresses, without a host. `at` listens at `addresses[self]`.
CAUSEWAY_DECL result<membership> connect_static(listener at, peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options);

/// The same, listening at our own entry of the list.
CAUSEWAY_DECL result<membership> connect_static(peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_RENDEZVOUS_HPP

// ---- causeway/net/asio_mesh.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_MESH_HPP
#define CAUSEWAY_NET_ASIO_MESH_HPP

// How peers that know each other's addresses become a full mesh: everybody listens, dials all peers of a lower index, and
// names itself on each connection. Also the loop that runs until the mesh stands, a deadline passes or somebody says stop.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline constexpr std::chrono::seconds handshake_patience{10};
inline constexpr std::size_t handshake_bytes = std::size_t{4} << 10U;  ///< parsed of a stranger
inline constexpr std::size_t most_strangers = 128;
inline constexpr std::size_t most_streams = 64;

/// Accepts strangers, dials peers, and collects the sockets of all links. Roles with more to say add handlers. Everything
/// runs on the thread that calls `run`.
class mesh_builder {
 public:
  using hello_handler = std::function<void(conversation_ptr, const frame_header&, std::span<const std::byte>)>;

  CAUSEWAY_DECL mesh_builder(listener& from, const rendezvous_options& options);
  mesh_builder(const mesh_builder&) = delete;
  mesh_builder& operator=(const mesh_builder&) = delete;
  ~mesh_builder() { shut_down(); }

  CAUSEWAY_DECL void on_hello(hello_handler handler);
  /// Called every 50 ms or more often while `run` runs.
  CAUSEWAY_DECL void on_tick(std::function<void(time_point)> handler);
  void set_run(std::uint64_t run_id) { run_id_ = run_id; }
  [[nodiscard]] std::uint64_t run_id() const noexcept { return run_id_; }
  [[nodiscard]] asio::io_context& io() noexcept { return *io_; }

  /// Starts making the links of peer `self` of `addresses.size()`. `token` tells this gathering from earlier ones.
  CAUSEWAY_DECL void connect_all(peer_index self, std::vector<endpoint> addresses, std::uint64_t token,
                                 std::size_t streams);

  /// Forgets the links made so far, and those that are being made: `connect_all` may be called again. Not from a handler of
  /// a link that is being made.
  CAUSEWAY_DECL void disconnect_all();

  /// Called once, when the last link stands.
  CAUSEWAY_DECL void on_complete(std::function<void()> handler);

  /// Why dialling failed last: ": reason", or nothing.
  CAUSEWAY_DECL [[nodiscard]] std::string last_failure() const;

  /// All links stand.
  CAUSEWAY_DECL [[nodiscard]] bool complete() const;

  [[nodiscard]] bool linked(peer_index peer) const { return peer < sockets_.size() && link_complete(sockets_[peer]); }
  /// Streams that stand.
  CAUSEWAY_DECL [[nodiscard]] std::size_t streams_made() const;

  /// Dials until somebody answers. `again`: the last connection broke, so pause first.
  CAUSEWAY_DECL void dial(const endpoint& target, dialer::connect_handler connected, bool again = false);

  CAUSEWAY_DECL void fail_with(error why);

  /// Runs until `done`, the first failure, the deadline or a request to stop. `late` describes what was missing.
  template <class Done, class Late>
  result<void> run(Done done, Late late) {
    while (!failure_ && !done()) {
      turned_away_.flush(clock_.now());
      if (tick_) tick_(clock_.now());
      if (options_->stop != nullptr && options_->stop->load()) {
        return fail(errc::cancelled, "rendezvous", "stopped on request before all peers were connected");
      }
      if (clock_.now() >= options_->deadline) return late();
      const auto turn = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
      const std::chrono::steady_clock::time_point limit{
          std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_->deadline.since_start)};
      io_->restart();
      io_->run_one_until(std::min(turn, limit));
    }
    if (failure_) return *failure_;
    return {};
  }

  /// Who is still missing, and why as far as we know: for messages.
  CAUSEWAY_DECL [[nodiscard]] std::string missing() const;

  CAUSEWAY_DECL [[nodiscard]] asio_transport finish();

  CAUSEWAY_DECL void reject(const conversation_ptr& who, const error& why);

  /// The checks that every first frame must pass. Null when it does.
  CAUSEWAY_DECL std::optional<error> check_run(std::uint64_t run_id, std::uint64_t model) const;

 private:
  using link_sockets = std::vector<std::optional<tcp::socket>>;
  struct early_link {
    conversation_ptr who;
    frame_header header;
    std::vector<std::byte> body;
  };

  CAUSEWAY_DECL static bool link_complete(const link_sockets& link);
  static bool has_value(const std::optional<tcp::socket>& s) { return s.has_value(); }

  /// One stranger goes. False when there is none.
  CAUSEWAY_DECL bool make_room();
  CAUSEWAY_DECL void send_away(const conversation_ptr& who);

  // ---- strangers

  CAUSEWAY_DECL std::shared_ptr<accepting> make_accepting(std::unique_ptr<tcp::acceptor> acceptor);

  CAUSEWAY_DECL void meet(tcp::socket socket);

  // ---- links

  CAUSEWAY_DECL void dial_peer(peer_index peer, std::size_t stream, bool again = false);

  CAUSEWAY_DECL void start_link(peer_index peer, const conversation_ptr& who);

  /// A peer of a higher index names itself on a new connection.
  CAUSEWAY_DECL void take_link(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body);

  CAUSEWAY_DECL void keep(peer_index peer, std::size_t stream, const conversation_ptr& who);

  CAUSEWAY_DECL void tell_if_complete();

  /// Ends everything that is under way, so that no handler refers to us any more. Sockets of links stay.
  CAUSEWAY_DECL void shut_down();

  std::unique_ptr<asio::io_context> io_;
  std::shared_ptr<accepting> accepting_;
  const rendezvous_options* options_;
  std::uint64_t run_id_;
  peer_index self_ = 0;
  informant informant_;
  std::uint64_t token_ = 0;
  std::size_t streams_ = 0;
  std::vector<endpoint> addresses_;
  std::vector<link_sockets> sockets_;
  half_open<conversation_ptr> strangers_{most_strangers};  // connected, nothing said yet
  std::set<conversation_ptr> talking_;                     // between `link` and `link_ok`
  std::vector<early_link> early_;
  std::vector<std::shared_ptr<dialer>> dialers_;
  hello_handler hello_;
  std::function<void(time_point)> tick_;
  stranger_log turned_away_;
  steady_clock clock_;
  std::function<void()> completed_;
  std::optional<error> failure_;
  bool over_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_MESH_HPP
#endif

// ---- causeway/net/asio_host.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_HOST_HPP
#define CAUSEWAY_NET_ASIO_HOST_HPP

// The host's side of a rendezvous: seats joiners, hands out addresses, and says go when every link stands.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// The host's side: a seat for every peer.
class host_session {
 public:
  CAUSEWAY_DECL host_session(listener& from, std::uint32_t peers, std::span<const std::byte> welcome,
                             const rendezvous_options& options);
  ~host_session();
  host_session(const host_session&) = delete;
  host_session& operator=(const host_session&) = delete;

  CAUSEWAY_DECL result<membership> run();

 private:
  struct seat_state {
    bool taken = false;
    bool ready = false;
    bool gone = false;  ///< it has heard that it may go
    duration silent{0};
    hello said;
    std::string seen_host;
    conversation_ptr who;
  };

  CAUSEWAY_DECL [[nodiscard]] std::size_t seats_taken() const;
  CAUSEWAY_DECL [[nodiscard]] bool all_ready() const;

  CAUSEWAY_DECL [[nodiscard]] bool all_gone() const;

  CAUSEWAY_DECL void seat(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body);

  CAUSEWAY_DECL result<peer_index> choose_seat(peer_index wanted) const;

  /// A seated peer answers heartbeats, and says `ready` when its links stand.
  CAUSEWAY_DECL void listen_to(peer_index index);

  CAUSEWAY_DECL bool hear(peer_index index, frame_kind kind, std::span<const std::byte> body);

  /// Keeps every seat's holder talking, and gives up those who are silent or make no links.
  CAUSEWAY_DECL void look_after_seats(time_point now);

  CAUSEWAY_DECL void look_after_links(time_point now);

  /// The seat is free again. Where links were being made everybody starts over, when it is taken again.
  CAUSEWAY_DECL void leave(peer_index index, const error& why);

  /// Tells the program and everybody who waits how many are in.
  CAUSEWAY_DECL void report();

  CAUSEWAY_DECL void send_tables();

  CAUSEWAY_DECL [[nodiscard]] address_table make_table() const;

  CAUSEWAY_DECL void send_go();

  /// Tells everybody why nothing came of it.
  CAUSEWAY_DECL void dismiss(const error& why);

  CAUSEWAY_DECL [[nodiscard]] error too_late() const;

  CAUSEWAY_DECL [[nodiscard]] error nobody_came() const;

  mesh_builder mesh_;  // first: its event loop must outlive the conversations of the seats
  endpoint address_;
  const rendezvous_options* options_;
  std::span<const std::byte> welcome_;
  std::vector<seat_state> seats_;
  std::vector<endpoint> addresses_;  // empty until everybody is in
  peer_index self_ = 0;
  steady_clock clock_;
  time_point last_beat_;
  time_point links_moved_;  // when the last link was made
  std::size_t links_made_ = 0;
  std::uint64_t token_ = 0;  // of the last table
  bool going_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_HOST_HPP
#endif

// ---- causeway/net/asio_join.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_ASIO_JOIN_HPP
#define CAUSEWAY_NET_ASIO_JOIN_HPP

// The joiner's side of a rendezvous: dials the host, takes the index it is given, and makes its links.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// The joiner's side.
class join_session {
 public:
  CAUSEWAY_DECL join_session(listener& own, endpoint host, const rendezvous_options& options);
  ~join_session();
  join_session(const join_session&) = delete;
  join_session& operator=(const join_session&) = delete;

  CAUSEWAY_DECL result<membership> run();

 private:
  CAUSEWAY_DECL void introduce(const conversation_ptr& who);

  CAUSEWAY_DECL [[nodiscard]] bool listens_on_loopback() const;

  CAUSEWAY_DECL void listen(std::chrono::nanoseconds patience);

  CAUSEWAY_DECL result<void> hear(const frame_header& h, std::span<const std::byte> body);

  CAUSEWAY_DECL result<void> hear_accepted(const frame_header& h, std::span<const std::byte> body);

  /// Somebody went while the links were made: they are made anew when another one has come.
  CAUSEWAY_DECL void start_over();

  CAUSEWAY_DECL result<void> hear_table(std::span<const std::byte> body);

  CAUSEWAY_DECL [[nodiscard]] error too_late() const;

  endpoint own_;
  endpoint host_;
  const rendezvous_options* options_;
  std::vector<std::byte> welcome_;
  std::vector<endpoint> addresses_;
  peer_index index_ = 0;
  std::uint32_t wanted_ = 0;
  bool said_ready_ = false;
  bool may_go_ = false;
  mesh_builder mesh_;
  conversation_ptr control_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_JOIN_HPP
#endif

// ---- causeway/net/impl/rendezvous.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_RENDEZVOUS_IPP
#define CAUSEWAY_NET_IMPL_RENDEZVOUS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL result<membership> host(listener at, std::uint32_t peers, std::span<const std::byte> welcome,
                                      const rendezvous_options& options) {
  if (peers == 0 || peers > most_peers || options.wanted_index.value_or(0) >= peers) {
    return fail(errc::invalid_argument, at.address().text(), "a run has 1 to 1024 peers, and the host is one of them");
  }
  if (welcome.size() > max_welcome_bytes) {
    return fail(errc::too_large, at.address().text(), "the settings sent to joiners are limited to 64 KiB");
  }
  if (options.run_id == 0) return fail(errc::invalid_argument, at.address().text(), "a run needs an id other than 0");
  return detail::host_session{at, peers, welcome, options}.run();
}

CAUSEWAY_DECL result<membership> join(const endpoint& address, const rendezvous_options& options) {
  CAUSEWAY_ASSIGN(listener own, open_listener(options.listen, options.transport.log));
  return detail::join_session{own, address, options}.run();
}

CAUSEWAY_DECL result<membership> connect_static(listener at, peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options) {
  if (self >= addresses.size() || addresses.size() > most_peers || options.run_id == 0) {
    return fail(errc::invalid_argument, "static peers", "needs a run id, at most 1024 addresses, and our index among them");
  }
  detail::mesh_builder mesh{at, options};
  mesh.connect_all(self, addresses, options.run_id, options.streams_per_link);
  CAUSEWAY_TRY(mesh.run([&] { return mesh.complete(); },
                        [&] {
                          return fail(errc::unreachable, addresses[self].text(),
                                      "not connected before the deadline: " + mesh.missing());
                        }));
  return membership{mesh.finish(), options.run_id, {}, addresses};
}

CAUSEWAY_DECL result<membership> connect_static(peer_index self, const std::vector<endpoint>& addresses,
                                                const rendezvous_options& options) {
  if (self >= addresses.size()) return fail(errc::invalid_argument, "static peers", "our index is not in the list");
  CAUSEWAY_ASSIGN(listener at, open_listener(addresses[self], options.transport.log));
  return connect_static(std::move(at), self, addresses, options);
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_RENDEZVOUS_IPP
#endif

// ---- causeway/net/impl/asio_mesh.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_MESH_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MESH_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mesh_builder::mesh_builder(listener& from, const rendezvous_options& options)
    : io_{std::move(from.port->io)},
      accepting_{make_accepting(std::move(from.port->acceptor))},
      options_{&options},
      run_id_{options.run_id},
      informant_{options.pieces},
      turned_away_{options.transport.log} {
  raise_descriptor_limit();
  accepting_->start();
}

CAUSEWAY_DECL void mesh_builder::on_hello(hello_handler handler) { hello_ = std::move(handler); }

CAUSEWAY_DECL void mesh_builder::on_tick(std::function<void(time_point)> handler) { tick_ = std::move(handler); }

CAUSEWAY_DECL void mesh_builder::on_complete(std::function<void()> handler) { completed_ = std::move(handler); }

CAUSEWAY_DECL void mesh_builder::connect_all(peer_index self, std::vector<endpoint> addresses, std::uint64_t token,
                                             std::size_t streams) {
  self_ = self;
  token_ = token;
  streams_ = streams;
  addresses_ = std::move(addresses);
  sockets_.resize(addresses_.size());
  for (peer_index peer = 0; peer < self; ++peer) dial_peer(peer, 0);
  for (auto& early : std::exchange(early_, {})) take_link(early.who, early.header, early.body);
  tell_if_complete();
}

CAUSEWAY_DECL void mesh_builder::disconnect_all() {
  for (const auto& d : std::exchange(dialers_, {})) d->stop();
  for (const auto& who : std::exchange(talking_, {})) who->stop();
  for (const auto& e : std::exchange(early_, {})) e.who->stop();
  sockets_.clear();
  addresses_.clear();
  completed_ = {};
}

CAUSEWAY_DECL std::string mesh_builder::last_failure() const {
  for (const auto& d : dialers_) {
    if (!d->last_failure().empty()) return ": " + d->last_failure();
  }
  return {};
}

CAUSEWAY_DECL bool mesh_builder::complete() const {
  if (addresses_.empty()) return false;
  for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
    if (peer != self_ && !link_complete(sockets_[peer])) return false;
  }
  return true;
}

CAUSEWAY_DECL std::size_t mesh_builder::streams_made() const {
  std::size_t made = 0;
  for (const auto& link : sockets_) made += static_cast<std::size_t>(std::count_if(link.begin(), link.end(), has_value));
  return made;
}

CAUSEWAY_DECL void mesh_builder::dial(const endpoint& target, dialer::connect_handler connected, bool again) {
  std::erase_if(dialers_, [](const auto& d) { return !d->busy(); });
  dialers_.push_back(std::make_shared<dialer>(*io_, target, std::move(connected)));
  again ? dialers_.back()->dial_later() : dialers_.back()->dial();
}

CAUSEWAY_DECL void mesh_builder::fail_with(error why) {
  if (!failure_) failure_ = std::move(why);
}

CAUSEWAY_DECL std::string mesh_builder::missing() const {
  std::string text;
  for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
    if (peer == self_ || link_complete(sockets_[peer])) continue;
    text += (text.empty() ? "" : ", ") + peer_name(static_cast<peer_index>(peer)) + " (" + addresses_[peer].text() + ")";
  }
  for (const auto& d : dialers_) {
    if (d->busy() && !d->last_failure().empty()) text += "; " + d->target().text() + ": " + d->last_failure();
  }
  return text.empty() ? std::string{"nobody"} : text;
}

CAUSEWAY_DECL asio_transport mesh_builder::finish() {
  shut_down();
  std::vector<std::vector<tcp::socket>> sockets;
  for (auto& link : sockets_) {
    auto& streams = sockets.emplace_back();
    for (auto& socket : link) streams.push_back(std::move(*socket));
  }
  return asio_transport{
      std::make_shared<mesh_engine>(self_, run_id_, mesh{std::move(io_), std::move(sockets)}, options_->transport)};
}

CAUSEWAY_DECL void mesh_builder::reject(const conversation_ptr& who, const error& why) {
  turned_away_.say(clock_.now(), "refused " + who->remote() + ": " + why.message);
  who->refuse(why);
}

CAUSEWAY_DECL std::optional<error> mesh_builder::check_run(std::uint64_t run_id, std::uint64_t model) const {
  if (run_id != run_id_ && run_id != 0) {
    return wrong_run();
  }
  if (model != options_->model_hash && model != 0 && options_->model_hash != 0) {
    return fail(errc::wrong_model, "",
                "this run trains another model or with other options; start with the same options as the host");
  }
  return std::nullopt;
}

CAUSEWAY_DECL bool mesh_builder::link_complete(const link_sockets& link) {
  return !link.empty() && std::all_of(link.begin(), link.end(), has_value);
}

CAUSEWAY_DECL bool mesh_builder::make_room() {
  const auto goes = strangers_.expel();
  if (goes) send_away(*goes);
  return goes.has_value();
}

CAUSEWAY_DECL void mesh_builder::send_away(const conversation_ptr& who) {
  reject(who, fail(errc::too_large, "", "too many connections at once; try again"));
}

CAUSEWAY_DECL std::shared_ptr<accepting> mesh_builder::make_accepting(std::unique_ptr<tcp::acceptor> acceptor) {
  return std::make_shared<accepting>(
      *io_, std::move(acceptor), [this](tcp::socket socket) { meet(std::move(socket)); },
      [this](const std::string& why) {
        turned_away_.say(clock_.now(), "cannot accept connections for now: " + why);
        make_room();
      });
}

CAUSEWAY_DECL void mesh_builder::meet(tcp::socket socket) {
  std::error_code failure;
  const std::string source = socket.remote_endpoint(failure).address().to_string();
  const bool scarce = spare_descriptors(socket.native_handle()) == 0;
  const auto who = std::make_shared<conversation>(std::move(socket));
  if (scarce && !make_room()) {
    return reject(who, fail(errc::too_large, "", "this peer has as many connections as it may have; raise its ulimit -n"));
  }
  if (const auto goes = strangers_.enter(who, source)) send_away(*goes);
  who->on_end([this, who](const error& why) {
    strangers_.leave(who);
    turned_away_.say(clock_.now(), "dropped a connection during its handshake: " + why.text());
  });
  who->next(handshake_bytes, handshake_patience, [this, who](const frame_header& h, std::span<const std::byte> body) {
    strangers_.leave(who);
    if (h.kind == frame_kind::ask) return informant_.serve(who, run_id_, body);
    if (h.kind == frame_kind::link) return take_link(who, h, body);
    if (h.kind == frame_kind::hello && hello_) return hello_(who, h, body);
    reject(who,
           h.kind == frame_kind::hello
               ? fail(errc::protocol, "", "this address is a peer, not the host of the run; join at the host's address")
               : fail(errc::protocol, "",
                      "this address serves a run with a fixed number of peers; join it with the fault policy fail_stop"));
  });
}

CAUSEWAY_DECL void mesh_builder::dial_peer(peer_index peer, std::size_t stream, bool again) {
  const auto connected = [this, peer, stream](const conversation_ptr& who) {
    talking_.insert(who);
    if (stream == 0) start_link(peer, who);
    byte_writer body;
    body.put(token_).put(options_->model_hash).put(peer);
    body.put(static_cast<std::uint32_t>(stream)).put(static_cast<std::uint32_t>(sockets_[peer].size()));
    body.put(static_cast<std::uint32_t>(chunk_for(options_->transport.chunk_bytes, sockets_[peer].size())));
    who->on_end([this, who, peer, stream](const error&) {
      talking_.erase(who);
      dial_peer(peer, stream, true);  // it may have been an earlier program about to end
    });
    who->say(frame_kind::link, run_id_, self_, body.bytes());
    who->next(handshake_bytes, handshake_patience, [this, who, peer, stream](const frame_header& h, auto answer) {
      talking_.erase(who);
      if (h.kind == frame_kind::link_ok) return keep(peer, stream, who);
      who->stop();
      const error why = h.kind == frame_kind::refused ? read_refusal(addresses_[peer].text(), answer)
                                                      : fail(errc::protocol, peer_name(peer), "it answered out of turn");
      if (why.code == errc::not_found) return dial_peer(peer, stream, true);  // its table is older than ours, or newer
      fail_with(why);
    });
  };
  dial(addresses_[peer], connected, again);
}

CAUSEWAY_DECL void mesh_builder::start_link(peer_index peer, const conversation_ptr& who) {
  if (!sockets_[peer].empty()) return;
  std::size_t streams = options_->streams_per_link != 0 ? options_->streams_per_link : streams_;
  const auto one_is_enough = [&] {
    return is_loopback(who->socket()) || (options_->transport.bbr && kernel_allows_bbr(*io_));
  };
  if (streams == 0) streams = one_is_enough() ? 1 : 16;
  const std::size_t spare = spare_descriptors(who->descriptor());
  sockets_[peer].resize(affordable_streams(std::min(streams, most_streams), spare));
  for (std::size_t stream = 1; stream < sockets_[peer].size(); ++stream) dial_peer(peer, stream);
}

CAUSEWAY_DECL void mesh_builder::take_link(const conversation_ptr& who, const frame_header& h,
                                           std::span<const std::byte> body) {
  if (addresses_.empty()) {  // it got the table before we did
    if (auto wrong = check_run(h.run_id, 0)) return reject(who, *wrong);
    if (early_.size() < most_strangers) early_.push_back({who, h, {body.begin(), body.end()}});
    return;
  }
  byte_reader in{body};
  const auto token = in.get<std::uint64_t>();
  const auto model = in.get<std::uint64_t>();
  const auto me = in.get<std::uint32_t>();
  const auto stream = in.get<std::uint32_t>();
  const auto streams = in.get<std::uint32_t>();
  const auto chunk = in.get<std::uint32_t>();
  if (auto outcome = in.finish("link request"); !outcome) return reject(who, outcome.error());
  if (auto wrong = check_run(h.run_id, model)) return reject(who, *wrong);
  if (token != token_) return reject(who, fail(errc::not_found, "", "it belongs to another gathering of peers"));
  if (me != self_ || h.sender <= self_ || h.sender >= sockets_.size()) {
    return reject(who, fail(errc::protocol, "", "it does not belong to this gathering of peers; start it again"));
  }
  if (streams == 0 || streams > most_streams || stream >= streams ||
      chunk != chunk_for(options_->transport.chunk_bytes, streams)) {
    return reject(
        who, fail(errc::invalid_argument, "", "both sides of a link need the same number of streams and chunk length"));
  }
  auto& link = sockets_[h.sender];
  if (link.empty()) link.resize(streams);
  if (link.size() != streams || link[stream].has_value()) {
    return reject(who, fail(errc::protocol, "", "somebody connected in the name of this peer already"));
  }
  talking_.insert(who);
  who->say(frame_kind::link_ok, run_id_, self_, {}, [this, who, sender = h.sender, stream] {
    talking_.erase(who);
    if (!sockets_[sender][stream]) keep(sender, stream, who);
  });
}

CAUSEWAY_DECL void mesh_builder::keep(peer_index peer, std::size_t stream, const conversation_ptr& who) {
  sockets_[peer][stream] = who->release();
  tell_if_complete();
}

CAUSEWAY_DECL void mesh_builder::tell_if_complete() {
  if (!completed_ || !complete()) return;
  std::exchange(completed_, {})();
}

CAUSEWAY_DECL void mesh_builder::shut_down() {
  if (over_) return;
  over_ = true;
  accepting_->stop();
  for (const auto& d : dialers_) d->stop();
  while (const auto who = strangers_.expel()) (*who)->stop();
  for (const auto& who : std::exchange(talking_, {})) who->stop();
  informant_.stop();
  for (const auto& e : early_) e.who->stop();
  early_.clear();
  hello_ = {};
  tick_ = {};
  completed_ = {};
  io_->restart();
  io_->poll();
  io_->restart();
  accepting_.reset();
  dialers_.clear();
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MESH_IPP
#endif

// ---- causeway/net/impl/asio_host.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_HOST_IPP
#define CAUSEWAY_NET_IMPL_ASIO_HOST_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL host_session::host_session(listener& from, std::uint32_t peers, std::span<const std::byte> welcome,
                                         const rendezvous_options& options)
    : mesh_{from, options}, address_{from.address()}, options_{&options}, welcome_{welcome}, seats_(peers) {
  self_ = options.wanted_index.value_or(0);
  seats_[self_].taken = true;
  mesh_.on_tick([this](time_point now) { look_after_seats(now); });
  mesh_.on_hello(
      [this](const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) { seat(who, h, body); });
}

CAUSEWAY_INLINE host_session::~host_session() {
  for (seat_state& s : seats_) {
    if (s.who) s.who->stop();
  }
}

CAUSEWAY_DECL result<membership> host_session::run() {
  report();
  if (seats_taken() == seats_.size()) send_tables();
  auto outcome = mesh_.run([this] { return mesh_.complete() && all_ready(); }, [this] { return too_late(); });
  if (!outcome) {
    dismiss(outcome.error());
    return outcome.error();
  }
  send_go();
  // They hang up when they have heard it. To do so first could take the word back: what they still say would be unread.
  const time_point grace = clock_.now() + options_->transport.close_grace;
  CAUSEWAY_TRY(mesh_.run([&] { return all_gone() || clock_.now() >= grace; }, [this] { return too_late(); }));
  for (seat_state& s : seats_) {
    if (s.who) s.who->stop();
  }
  return membership{mesh_.finish(), mesh_.run_id(), {welcome_.begin(), welcome_.end()}, addresses_};
}

CAUSEWAY_DECL std::size_t host_session::seats_taken() const {
  return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.taken; }));
}

CAUSEWAY_DECL bool host_session::all_ready() const {
  return !addresses_.empty() && std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return s.ready || !s.who; });
}

CAUSEWAY_DECL bool host_session::all_gone() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return s.gone || !s.who; });
}

CAUSEWAY_DECL void host_session::seat(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
  auto said = hello::decode(body);
  if (!said) return mesh_.reject(who, said.error());
  if (auto wrong = mesh_.check_run(h.run_id, said->model_hash)) return mesh_.reject(who, *wrong);
  auto index = choose_seat(said->wanted);
  if (!index) return mesh_.reject(who, index.error());
  seat_state& s = seats_[*index];
  std::error_code failure;
  s = {.taken = true, .said = *said, .seen_host = who->socket().remote_endpoint(failure).address().to_string(), .who = who};
  who->on_end([this, seat = *index](const error& why) { leave(seat, why); });
  listen_to(*index);
  report();
  if (seats_taken() == seats_.size()) send_tables();
}

CAUSEWAY_DECL result<peer_index> host_session::choose_seat(peer_index wanted) const {
  if (seats_taken() == seats_.size()) {
    return fail(errc::wrong_run, "", "the run is full: all " + std::to_string(seats_.size()) + " peers are in");
  }
  if (wanted == any_index) {
    const auto free = std::find_if(seats_.begin(), seats_.end(), [](const auto& s) { return !s.taken; });
    return static_cast<peer_index>(free - seats_.begin());
  }
  if (wanted >= seats_.size() || seats_[wanted].taken) {
    return fail(errc::invalid_argument, "",
                "index " + std::to_string(wanted) + (wanted >= seats_.size() ? " does not exist" : " is taken") +
                    "; join without an index, or resume each peer in its own folder");
  }
  return wanted;
}

CAUSEWAY_DECL void host_session::listen_to(peer_index index) {
  const conversation_ptr who = seats_[index].who;
  who->next(handshake_bytes, no_patience_limit, [this, index](const frame_header& h, std::span<const std::byte> body) {
    if (going_) return listen_to(index);
    if (!hear(index, h.kind, body)) {
      return leave(index, h.kind == frame_kind::refused
                              ? read_refusal(peer_name(index), body)
                              : fail(errc::protocol, peer_name(index), "it answered out of turn"));
    }
    seats_[index].silent = {};
    listen_to(index);
  });
}

CAUSEWAY_DECL bool host_session::hear(peer_index index, frame_kind kind, std::span<const std::byte> body) {
  if (kind != frame_kind::ready) return kind == frame_kind::heartbeat;
  byte_reader in{body};
  const auto token = in.get<std::uint64_t>();
  if (!in.finish("ready")) return false;
  if (!addresses_.empty() && token == token_) seats_[index].ready = true;  // else it speaks of a table before this one
  return true;
}

CAUSEWAY_DECL void host_session::look_after_seats(time_point now) {
  const transport_options& o = options_->transport;
  if (now - last_beat_ < o.heartbeat) return;
  // Time that this process itself was stopped for does not count against the others.
  const duration passed = std::min(now - last_beat_, o.heartbeat * 2);
  last_beat_ = now;
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].who) continue;
    if ((seats_[i].silent += passed) > o.silence) {
      leave(i, fail(errc::timeout, peer_name(i), "it said nothing for too long"));
    } else {
      seats_[i].who->say(frame_kind::heartbeat, mesh_.run_id(), self_, {});
    }
  }
  if (!addresses_.empty()) look_after_links(now);
}

CAUSEWAY_DECL void host_session::look_after_links(time_point now) {
  const auto ready = std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.ready; });
  const std::size_t made = mesh_.streams_made() + static_cast<std::size_t>(ready);
  if (made != links_made_) links_moved_ = now;
  links_made_ = made;
  if (now - links_moved_ <= options_->link_patience || all_ready()) return;
  bool somebody = false;
  for (peer_index i = 0; i < seats_.size() && !addresses_.empty(); ++i) {
    if (!seats_[i].who || mesh_.linked(i)) continue;
    leave(i, fail(errc::timeout, peer_name(i), "it made no link to us"));
    somebody = true;
  }
  if (!somebody) mesh_.fail_with(too_late());
}

CAUSEWAY_DECL void host_session::leave(peer_index index, const error& why) {
  options_->transport.log(severity::warning,
                          peer_name(index) + " left before the run was complete, its seat is free: " + why.message);
  if (!seats_[index].who->over())
    seats_[index].who->refuse(fail(errc::peer_lost, "", "the host gave you up: " + why.message));
  seats_[index] = {};
  if (!addresses_.empty()) {
    addresses_.clear();
    for (seat_state& s : seats_) s.ready = false;
    mesh_.disconnect_all();
  }
  report();
}

CAUSEWAY_DECL void host_session::report() {
  const auto joined = static_cast<std::uint32_t>(seats_taken());
  const auto wanted = static_cast<std::uint32_t>(seats_.size());
  if (options_->progress) options_->progress({joined, wanted, joined == wanted});
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].who) continue;
    byte_writer body;
    body.put(i).put(wanted).put(joined);
    seats_[i].who->say(frame_kind::accepted, mesh_.run_id(), self_, body.bytes());
  }
}

CAUSEWAY_DECL void host_session::send_tables() {
  const address_table table = make_table();
  token_ = table.token;
  for (const seat_state& s : seats_) {
    if (!s.who) continue;
    s.who->say(frame_kind::welcome, mesh_.run_id(), self_, welcome_);
    s.who->say(frame_kind::table, mesh_.run_id(), self_, table.encode());
  }
  addresses_ = table.addresses;
  for (endpoint& e : addresses_) {
    if (e.host.empty()) e.host = address_.host;
  }
  links_moved_ = clock_.now();
  mesh_.connect_all(self_, addresses_, table.token, table.streams);
}

CAUSEWAY_DECL address_table host_session::make_table() const {
  address_table table;
  bool all_local = true;
  bool all_bbr = true;
  const auto now = steady_clock{}.now().since_start.count();
  table.token = hash_text(address_.text(), static_cast<std::uint64_t>(now) ^ mesh_.run_id());
  for (const seat_state& s : seats_) {
    if (!s.who) {
      table.addresses.push_back({options_->announce, announced_port(*options_, address_)});
      continue;
    }
    const bool local = is_loopback(s.who->socket());
    all_local = all_local && local;
    all_bbr = all_bbr && s.said.has_bbr != 0;
    const std::string seen = local ? std::string{} : s.seen_host;
    table.addresses.push_back({s.said.announce.empty() ? seen : s.said.announce, s.said.port});
  }
  const std::size_t streams = options_->streams_per_link;
  table.streams = streams != 0 ? static_cast<std::uint32_t>(streams) : all_local || all_bbr ? 1 : 16;
  return table;
}

CAUSEWAY_DECL void host_session::send_go() {
  going_ = true;
  mesh_.on_tick({});
  for (seat_state& s : seats_) {
    if (!s.who) continue;
    s.who->on_end([&s](const error&) { s.gone = true; });
    s.who->say(frame_kind::go, mesh_.run_id(), self_, {});
  }
}

CAUSEWAY_DECL void host_session::dismiss(const error& why) {
  for (const seat_state& s : seats_) {
    if (s.who && !s.who->over()) s.who->refuse(why);
  }
  mesh_.io().restart();
  mesh_.io().poll();
}

CAUSEWAY_DECL error host_session::too_late() const {
  if (addresses_.empty()) return nobody_came();
  std::string slow;
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (seats_[i].who && !seats_[i].ready) slow += " " + peer_name(i);
  }
  return fail(errc::timeout, address_.text(),
              "the links were not made in time; missing here: " + mesh_.missing() + "; not ready:" + slow);
}

CAUSEWAY_DECL error host_session::nobody_came() const {
  std::string missing;
  for (peer_index i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].taken) missing += (missing.empty() ? "" : ", ") + peer_name(i);
  }
  return fail(errc::timeout, address_.text(),
              "only " + std::to_string(seats_taken()) + " of " + std::to_string(seats_.size()) +
                  " peers joined before the deadline; missing: " + missing);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_HOST_IPP
#endif

// ---- causeway/net/impl/asio_join.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_ASIO_JOIN_IPP
#define CAUSEWAY_NET_IMPL_ASIO_JOIN_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL join_session::join_session(listener& own, endpoint host, const rendezvous_options& options)
    : own_{own.address()}, host_{std::move(host)}, options_{&options}, mesh_{own, options} {}

CAUSEWAY_INLINE join_session::~join_session() {
  if (control_) control_->stop();
}

CAUSEWAY_DECL result<membership> join_session::run() {
  mesh_.dial(host_, [this](const conversation_ptr& who) { introduce(who); });
  auto outcome = mesh_.run([this] { return may_go_; }, [this] { return too_late(); });
  if (!outcome) return outcome.error();
  control_->stop();
  return membership{mesh_.finish(), mesh_.run_id(), std::move(welcome_), std::move(addresses_)};
}

CAUSEWAY_DECL void join_session::introduce(const conversation_ptr& who) {
  control_ = who;
  if (!is_loopback(who->socket()) && options_->announce.empty() && listens_on_loopback()) {
    return mesh_.fail_with(fail(errc::invalid_argument, own_.text(),
                                "the run is on another machine, but the other peers cannot reach us there; listen on an "
                                "address of this machine, for example --listen 0.0.0.0:0"));
  }
  const hello said{options_->model_hash, options_->wanted_index.value_or(any_index), options_->announce,
                   announced_port(*options_, own_),
                   static_cast<std::uint8_t>(options_->transport.bbr && kernel_allows_bbr(mesh_.io()))};
  who->on_end([this](const error& why) {
    mesh_.fail_with(fail(why.code == errc::peer_lost ? errc::peer_lost : why.code, host_.text(),
                         "the host of the run ended the conversation: " + why.message));
  });
  who->say(frame_kind::hello, options_->run_id, 0, said.encode());
  listen(handshake_patience);
}

CAUSEWAY_DECL bool join_session::listens_on_loopback() const {
  std::error_code failure;
  const auto address = asio::ip::make_address(own_.host, failure);
  return !failure && address.is_loopback();
}

CAUSEWAY_DECL void join_session::listen(std::chrono::nanoseconds patience) {
  control_->next(max_handshake_bytes, patience, [this](const frame_header& h, std::span<const std::byte> body) {
    if (auto outcome = hear(h, body); !outcome) return mesh_.fail_with(outcome.error());
    if (!may_go_) listen(std::max<std::chrono::nanoseconds>(options_->transport.silence, handshake_patience));
  });
}

CAUSEWAY_DECL result<void> join_session::hear(const frame_header& h, std::span<const std::byte> body) {
  if (h.kind == frame_kind::refused) return read_refusal(host_.text(), body);
  if (h.kind == frame_kind::accepted) return hear_accepted(h, body);
  if (h.kind == frame_kind::heartbeat) {
    control_->say(frame_kind::heartbeat, mesh_.run_id(), index_, {});
    return {};
  }
  if (h.kind == frame_kind::welcome && wanted_ != 0) {
    welcome_.assign(body.begin(), body.end());
    return {};
  }
  if (h.kind == frame_kind::table && wanted_ != 0 && addresses_.empty()) return hear_table(body);
  if (h.kind == frame_kind::go && said_ready_) {
    may_go_ = true;
    return {};
  }
  return fail(errc::protocol, host_.text(), "the host answered out of turn");
}

CAUSEWAY_DECL result<void> join_session::hear_accepted(const frame_header& h, std::span<const std::byte> body) {
  byte_reader in{body};
  index_ = in.get<std::uint32_t>();
  wanted_ = in.get<std::uint32_t>();
  const auto joined = in.get<std::uint32_t>();
  CAUSEWAY_TRY(in.finish("acceptance"));
  if (wanted_ > most_peers || index_ >= wanted_) return fail(errc::protocol, host_.text(), "it gave us no usable index");
  if (options_->run_id != 0 && h.run_id != options_->run_id)
    return fail(errc::wrong_run, host_.text(), "it serves another run");
  mesh_.set_run(h.run_id);
  if (!addresses_.empty()) start_over();
  if (options_->progress) options_->progress({joined, wanted_, joined == wanted_});
  return {};
}

CAUSEWAY_DECL void join_session::start_over() {
  addresses_.clear();
  said_ready_ = false;
  mesh_.disconnect_all();
}

CAUSEWAY_DECL result<void> join_session::hear_table(std::span<const std::byte> body) {
  CAUSEWAY_ASSIGN(address_table table, address_table::decode(body));
  if (table.addresses.size() != wanted_) return fail(errc::protocol, host_.text(), "its table of peers is incomplete");
  for (endpoint& e : table.addresses) {
    if (e.host.empty()) e.host = host_.host;
  }
  addresses_ = table.addresses;
  mesh_.on_complete([this, token = table.token] {
    said_ready_ = true;
    byte_writer of_table;
    of_table.put(token);
    control_->say(frame_kind::ready, mesh_.run_id(), index_, of_table.bytes());
  });
  mesh_.connect_all(index_, addresses_, table.token, table.streams);
  return {};
}

CAUSEWAY_DECL error join_session::too_late() const {
  if (control_ == nullptr) {
    return fail(errc::unreachable, host_.text(),
                "nobody answers there" + mesh_.last_failure() + "; is the first peer running, and is its port open?");
  }
  if (addresses_.empty()) return fail(errc::timeout, host_.text(), "the run was not complete before the deadline");
  return fail(errc::timeout, host_.text(), "the links were not made before the deadline; missing: " + mesh_.missing());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_JOIN_IPP
#endif

// ---- causeway/net/scoped_operation.hpp ----
#ifndef CAUSEWAY_NET_SCOPED_OPERATION_HPP
#define CAUSEWAY_NET_SCOPED_OPERATION_HPP

// A send or receive that cannot outlive its buffer: what is still under way when this object goes, is cancelled. Keep it
// with the buffer, declared below it, so that it goes first.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// One operation, or none. `on`, which it was started on, is a Transport or a fabric; it must stay where it is, and outlive
/// the operation. Not thread-safe.
class scoped_operation {
 public:
  scoped_operation() = default;
  template <class T>
  scoped_operation(T& on, operation op) : on_{&on}, ways_{&ways_of<T>}, op_{op} {}
  scoped_operation(scoped_operation&& other) noexcept
      : on_{other.on_}, ways_{other.ways_}, op_{std::exchange(other.op_, 0)} {}
  scoped_operation& operator=(scoped_operation&& other) noexcept {
    if (this == &other) return *this;
    cancel();
    on_ = other.on_;
    ways_ = other.ways_;
    op_ = std::exchange(other.op_, 0);
    return *this;
  }
  ~scoped_operation() { cancel(); }

  /// Whether there is one that was not waited for.
  [[nodiscard]] bool started() const noexcept { return op_ != 0; }
  /// 0 where there is none.
  [[nodiscard]] operation number() const noexcept { return op_; }
  /// Whether `wait` would return at once.
  [[nodiscard]] bool done() const { return op_ == 0 || ways_->done(on_, op_); }
  /// Bytes moved; 0 where there is none. Afterwards there is none: what takes longer is cancelled.
  result<std::size_t> wait(time_point deadline) {
    if (op_ == 0) return std::size_t{0};
    return ways_->wait(on_, std::exchange(op_, 0), deadline);
  }
  void cancel() {
    if (op_ != 0) (void)wait(time_point{});  // in the past
  }

 private:
  struct ways {
    result<std::size_t> (*wait)(void* on, operation op, time_point deadline);
    bool (*done)(void* on, operation op);
  };
  template <class T>
  static constexpr ways ways_of{
      [](void* on, operation op, time_point deadline) { return static_cast<T*>(on)->wait(op, deadline); },
      [](void* on, operation op) { return static_cast<const T*>(on)->done(op); }};

  void* on_ = nullptr;
  const ways* ways_ = nullptr;
  operation op_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_SCOPED_OPERATION_HPP

// ---- causeway/collective/channels.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_CHANNELS_HPP
#define CAUSEWAY_COLLECTIVE_CHANNELS_HPP

// Who talks on which channel. Every conversation owns `channel_stride` consecutive numbers, so that a collective can keep
// its phases apart by adding a small number to the channel that its caller gave it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

inline constexpr std::uint32_t channel_stride = 16;

/// Channels lie below this. The bits above number the pieces of one message, so that a piece that got lost cannot be
/// mistaken for the next one.
inline constexpr std::uint32_t channel_limit = 1U << 16U;

constexpr std::uint32_t numbered(std::uint32_t channel, std::size_t piece) noexcept {
  return channel + static_cast<std::uint32_t>(piece % channel_limit) * channel_limit;
}

/// Channels of one run. 0 to 15 belong to the transport itself (hand-shakes, heartbeats).
namespace channels {
inline constexpr std::uint32_t membership = 1 * channel_stride;   ///< joins, leaves, verdicts on a step
inline constexpr std::uint32_t metrics = 2 * channel_stride;      ///< losses, token counts
inline constexpr std::uint32_t gradients = 3 * channel_stride;    ///< all-reduce of gradients in every step
inline constexpr std::uint32_t updates = 4 * channel_stride;      ///< pseudo-gradients of an outer step
inline constexpr std::uint32_t parameters = 5 * channel_stride;   ///< initial broadcast, averages of parameters
inline constexpr std::uint32_t state = 6 * channel_stride;        ///< hashes of committed state, recovery
inline constexpr std::uint32_t activations = 7 * channel_stride;  ///< between stages of a pipeline
inline constexpr std::uint32_t site = 8 * channel_stride;         ///< among peers that sit close together
inline constexpr std::uint32_t stages = 9 * channel_stride;       ///< what all stages of a model decide alike
inline constexpr std::uint32_t links = 10 * channel_stride;       ///< probes of what each link gives
inline constexpr std::uint32_t user = 64 * channel_stride;        ///< from here on: free for custom policies
}  // namespace channels

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_CHANNELS_HPP

// ---- causeway/core/thread_pool.hpp ----
#ifndef CAUSEWAY_CORE_THREAD_POOL_HPP
#define CAUSEWAY_CORE_THREAD_POOL_HPP

// The one thread pool of a process. Work is cut into parts that depend on the number of threads and on nothing else. Each
// thread has parts of its own, and takes over those of others when it is done: a core that is slower, or that the system
// has given to another program, holds up only the part that it is in. So what a part computes must not depend on the
// thread that it runs on. Idle threads spin for about 100 microseconds before they sleep: a sleeping thread takes 45
// microseconds to wake, which is longer than many kernels.

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace detail

/// A half-open range of indices.
struct index_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
};

/// The part of [0, count) that thread `index` of `threads` works on, cut at multiples of `grain`.
constexpr index_range share_of(std::int64_t count, unsigned index, unsigned threads, std::int64_t grain = 1) noexcept {
  const std::int64_t blocks = (count + grain - 1) / grain;
  const std::int64_t first = blocks * index / threads * grain;
  const std::int64_t last = blocks * (index + 1) / threads * grain;
  return {first < count ? first : count, last < count ? last : count};
}

/// `size()` threads, the caller's included. One caller at a time: calls are not re-entrant and not for use from two
/// threads.
class thread_pool {
 public:
  explicit thread_pool(unsigned threads = 1) : size_{threads == 0 ? 1 : threads} {
    if (size_ == 1) return;  // nobody waits, and the number of cores stands in a file
    shared_ = std::make_unique<shared>(size_);
    // Spinning pays only while every thread has a core of its own.
    shared_->spins = size_ <= std::thread::hardware_concurrency() ? 4000 : 0;
    for (unsigned i = 1; i < size_; ++i) others_.emplace_back([s = shared_.get(), i] { work(*s, i); });
  }

  thread_pool(thread_pool&&) noexcept = default;
  thread_pool& operator=(thread_pool&&) = delete;

  ~thread_pool() {
    if (!shared_) return;
    shared_->stop = true;
    publish(*shared_);
    for (auto& thread : others_) thread.join();
  }

  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /// Calls `f(part, thread)` once for each part of [0, parts) and returns when all are done. `thread`, below `size()`,
  /// tells calls apart that run at the same time, so that each has memory of its own; the caller is 0. `f` must not throw.
  template <class F>
  void for_each(unsigned parts, F&& f) {
    if (size_ == 1) {
      for (unsigned part = 0; part < parts; ++part) f(part, 0U);
      return;
    }
    shared& s = *shared_;
    s.object = std::addressof(f);
    s.call = [](const void* object, unsigned part, unsigned thread) {
      (*static_cast<std::remove_reference_t<F>*>(const_cast<void*>(object)))(part, thread);
    };
    for (unsigned i = 0; i < size_; ++i) {
      const index_range own = share_of(parts, i, size_);
      s.queues[i].end = static_cast<unsigned>(own.end);
      s.queues[i].next.store(static_cast<unsigned>(own.begin), std::memory_order_relaxed);
    }
    s.inside.fetch_and(~closed, std::memory_order_release);
    publish(s);
    take_parts(s, 0);
    s.inside.fetch_or(closed, std::memory_order_acq_rel);  // who has not come yet is not waited for
    wait_for_others(s);
  }

  /// Calls `f(i)` once for each i below `size()`: for work that is cut by the number of threads.
  template <class F>
  void run(F&& f) {
    for_each(size_, [&](unsigned i, unsigned) { f(i); });
  }

  /// Cuts [0, count) into contiguous parts, at multiples of `grain`, a few for each thread, and calls `f(index_range)` on
  /// each. Runs on the caller alone when `count <= grain`.
  template <class F>
  void for_range(std::int64_t count, std::int64_t grain, F&& f) {
    if (count <= 0) return;
    if (size_ == 1 || count <= grain) {
      f(index_range{0, count});
      return;
    }
    const std::int64_t grains = (count + grain - 1) / grain;
    const auto parts = static_cast<unsigned>(grains < 4 * std::int64_t{size_} ? grains : 4 * std::int64_t{size_});
    for_each(parts, [&](unsigned part, unsigned) { f(share_of(count, part, parts, grain)); });
  }

 private:
  static constexpr std::uint32_t closed = 1U << 31U;

  /// The parts of one thread that nobody has taken.
  struct alignas(64) queue {
    std::atomic<unsigned> next{0};
    unsigned end = 0;
  };

  struct shared {
    explicit shared(unsigned threads) : queues(threads) {}

    alignas(64) std::atomic<std::uint32_t> generation{0};
    /// Threads that may be in a call, besides the caller; `closed`: what they would find belongs to no call.
    alignas(64) std::atomic<std::uint32_t> inside{closed};
    const void* object = nullptr;
    void (*call)(const void*, unsigned, unsigned) = nullptr;
    std::vector<queue> queues;
    std::atomic<bool> stop{false};
    int spins = 0;
  };

  static void publish(shared& s) {
    s.generation.fetch_add(1, std::memory_order_release);
    s.generation.notify_all();
  }

  /// Its own ones first, then those of the threads after it.
  static void take_parts(shared& s, unsigned thread) {
    const auto threads = static_cast<unsigned>(s.queues.size());
    for (unsigned i = 0; i < threads; ++i) {
      queue& from = s.queues[(thread + i) % threads];
      while (from.next.load(std::memory_order_relaxed) < from.end) {
        const unsigned part = from.next.fetch_add(1, std::memory_order_relaxed);
        if (part < from.end) s.call(s.object, part, thread);
      }
    }
  }

  static void wait_for_others(shared& s) {
    for (int i = 0; i < s.spins; ++i) {
      if (s.inside.load(std::memory_order_acquire) == closed) return;
      detail::relax();
    }
    for (auto now = s.inside.load(std::memory_order_acquire); now != closed;
         now = s.inside.load(std::memory_order_acquire)) {
      s.inside.wait(now, std::memory_order_acquire);
    }
  }

  static void work(shared& s, unsigned index) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < s.spins && s.generation.load(std::memory_order_acquire) == seen; ++i) detail::relax();
      s.generation.wait(seen, std::memory_order_acquire);
      seen = s.generation.load(std::memory_order_acquire);
      if (s.stop) return;
      if ((s.inside.fetch_add(1, std::memory_order_acq_rel) & closed) == 0) take_parts(s, index);
      if (s.inside.fetch_sub(1, std::memory_order_acq_rel) == (closed | 1U)) s.inside.notify_one();
    }
  }

  std::unique_ptr<shared> shared_;
  unsigned size_;
  std::vector<std::thread> others_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_THREAD_POOL_HPP

// ---- causeway/tensor/buffer.hpp ----
#ifndef CAUSEWAY_TENSOR_BUFFER_HPP
#define CAUSEWAY_TENSOR_BUFFER_HPP

// Aligned memory for numbers, asking for huge pages where they pay (reads gain a quarter on the reference machine). Where a
// device computes, memory comes from it: a `memory_source` says how, and the host must be able to read and write it.

#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Bytes aligned to 64, or to 2 MiB with huge pages requested when at least that large. Throws std::bad_alloc.
inline void* allocate_aligned(std::size_t bytes) {
  constexpr std::size_t huge = std::size_t{2} << 20U;
  const std::size_t alignment = bytes >= huge ? huge : 64;
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX) - alignment) throw std::bad_alloc{};  // rounding up would wrap
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (p == nullptr) throw std::bad_alloc{};
#if defined(__linux__)
  if (bytes >= huge) (void)madvise(p, rounded, MADV_HUGEPAGE);
#endif
  return p;
}

/// Where memory for numbers comes from: the host, unless a device's backend says otherwise. Its owner outlives the memory.
struct memory_source {
  void* owner = nullptr;
  void* (*reserve)(void* owner, std::size_t bytes) = nullptr;  ///< as allocate_aligned; null: the host
  void (*release)(void* owner, void* piece) = nullptr;

  [[nodiscard]] void* allocate(std::size_t bytes) const {
    return reserve == nullptr ? allocate_aligned(bytes) : reserve(owner, bytes);
  }
  void free(void* piece) const noexcept {
    if (piece == nullptr) return;
    if (release == nullptr) {
      std::free(piece);
    } else {
      release(owner, piece);
    }
  }
};

/// A fixed number of zeroed values of a trivial type. Movable, not copyable.
template <class T>
class aligned_buffer {
 public:
  aligned_buffer() = default;
  explicit aligned_buffer(std::size_t count, const memory_source& source = {})
      : source_{source}, data_{static_cast<T*>(source.allocate(bytes_of(count)))}, size_{count} {
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  aligned_buffer(aligned_buffer&& other) noexcept
      : source_{other.source_}, data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  aligned_buffer& operator=(aligned_buffer&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~aligned_buffer() { source_.free(data_); }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<T> span() noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const T> span() const noexcept { return {data_, size_}; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  // A product that wraps would hand out less than was asked.
  static std::size_t bytes_of(std::size_t count) {
    if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_alloc{};
    return count * sizeof(T);
  }

  memory_source source_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory of a source for a std::vector, which goes on to serialize as any other.
template <class T>
class source_allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit source_allocator(const memory_source& source = {}) noexcept : source_{source} {}
  template <class U>
  source_allocator(const source_allocator<U>& other) noexcept : source_{other.source()} {}  // NOLINT: as allocators do

  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(source_.allocate(count * sizeof(T))); }
  void deallocate(T* piece, std::size_t) noexcept { source_.free(piece); }
  [[nodiscard]] const memory_source& source() const noexcept { return source_; }

  friend bool operator==(const source_allocator& a, const source_allocator& b) noexcept {
    return a.source_.owner == b.source_.owner && a.source_.release == b.source_.release;
  }

 private:
  memory_source source_;
};

/// Numbers that grow, in memory of a source.
template <class T>
using source_vector = std::vector<T, source_allocator<T>>;

/// Takes the numbers to memory of another source, and all that come later.
template <class T>
void move_to(const memory_source& source, source_vector<T>& values) {
  const source_allocator<T> there{source};
  if (values.get_allocator() == there) return;
  values = source_vector<T>(values.begin(), values.end(), there);
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_BUFFER_HPP

// ---- causeway/collective/options.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_OPTIONS_HPP
#define CAUSEWAY_COLLECTIVE_OPTIONS_HPP

// What all collectives share: how long they may take, how they cut data, where they keep working memory.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// How a sum travels. `n` peers, `size` bytes of f32 each.
enum class algorithm : std::uint8_t {
  automatic,  ///< the transport's own sum where it has one (net::SumsItself); else one_shot up to
              ///< collective_options::one_shot_bytes, and few peers; butterfly beyond
  one_shot,   ///< everybody sends everything to everybody: (n-1) size bytes a peer, 1 latency; sums in the order 0..n-1
  butterfly,  ///< each peer owns 1/n, sums it, sends it back: 2 (n-1)/n size bytes, 2 latencies; in the order 0..n-1
  ring,       ///< 2 (n-1)/n size bytes, 2 (n-1) latencies, talks to two neighbours only; part p in the order p, p+1, .. p-1
};

/// Memory that collectives reuse. Give the same one to every call of a thread and they allocate nothing after the largest
/// call was seen. Not for two threads at once.
class collective_workspace {
 public:
  /// At least `bytes` bytes, 64-byte aligned; what was there before is lost when it grows.
  CAUSEWAY_DECL [[nodiscard]] std::byte* reserve(std::size_t bytes);

  [[nodiscard]] std::vector<net::scoped_operation>& operations() noexcept { return operations_; }
  [[nodiscard]] std::vector<std::size_t>& sizes() noexcept { return sizes_; }
  [[nodiscard]] std::vector<const float*>& parts() noexcept { return parts_; }
  [[nodiscard]] thread_pool& alone() noexcept { return alone_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.size(); }

 private:
  aligned_buffer<std::byte> memory_;
  std::vector<net::scoped_operation> operations_;
  std::vector<std::size_t> sizes_;
  std::vector<const float*> parts_;
  thread_pool alone_{1};
};

struct collective_options {
  time_point deadline = no_deadline;                    ///< on the transport's clock, for the whole call
  algorithm how = algorithm::automatic;                 ///< must be the same on all peers, as must the next three
  std::size_t chunk_bytes = std::size_t{256} << 10U;    ///< f32 bytes that are sent, summed and passed on as one piece
  std::size_t one_shot_bytes = std::size_t{64} << 10U;  ///< of a peer; and at most 16 times as many of all together
  std::uint32_t window = 4;                             ///< chunks under way at a time in each of the two phases
  thread_pool* pool = nullptr;                          ///< for sums and codecs; none: the caller's thread
  collective_workspace* workspace = nullptr;            ///< none: allocated for this call
  /// Look at finished sums of f32 that arrive, too: for peers that do not rely on each other's own check. Costs 6 % of an
  /// all-reduce over loopback.
  bool checks_results = false;
};

/// The same, for links of `streams` TCP connections each. Several streams are what a lossy line without BBR gets; each then
/// carries one chunk at a time and slowly, so there must be chunks for all of them: 16 MiB over 100 Mbit/s with 50 ms and
/// 1 % loss took 4.7 s instead of 9.5 s. All peers must give the same number.
constexpr collective_options tuned_for_streams(collective_options o, std::size_t streams) noexcept {
  if (streams <= 1) return o;
  o.chunk_bytes = std::size_t{128} << 10U;
  o.window = 16;
  return o;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_OPTIONS_HPP

// ---- causeway/collective/impl/options.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_OPTIONS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_OPTIONS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::byte* collective_workspace::reserve(std::size_t bytes) {
  if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
  return memory_.data();
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_OPTIONS_IPP
#endif

// ---- causeway/collective/exchange.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_EXCHANGE_HPP
#define CAUSEWAY_COLLECTIVE_EXCHANGE_HPP

// What every way of averaging a row over a group of peers looks like to a communication policy. An exchange is cut in
// three, so that it can run beside inner steps: `begin` gets the own contribution under way, `turn` reduces what has
// arrived and sends it on, `finish` leaves the result in the row. Exchanges are values that live in a policy and are used
// again and again, for one conversation at a time; several of them may be in conversation at once, on channels of their
// own.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// One conversation among a group. The transport must be the same object in all three calls, and outlive the conversation.
struct exchange_port {
  net::any_transport& transport;      ///< of the group: self() and size() are within the group
  net::message_id id;                 ///< channel_stride channels from id.channel on are ours
  const collective_options& options;  ///< deadline of this call, workspace; the pool is the context's

  /// For a second conversation at the same time, on the upper half of our channels; the first uses the lower one.
  [[nodiscard]] exchange_port beside(net::any_transport& over) const {
    net::message_id upper = id;
    upper.channel += channel_stride / 2;
    return {over, upper, options};
  }
};

/// What is averaged. Spans must stay where they are until `finish` has returned.
struct exchange_row {
  std::span<float> values;      ///< in: mine, unweighted, unchanged from `begin` to `finish`; after finish: the result
  std::span<float> residual{};  ///< not empty: begin writes values − decode(own message) here. May not alias values
  float weight = 1;             ///< how much mine counts, >= 0; with 0 nothing of mine is sent: I only listen
  std::span<float> counts{};    ///< not empty: after finish, the weights of those who sent coordinate i, summed
  errc refused{};               ///< non_finite, corrupt or protocol: nobody may use my values, all fail with this code
};

/// What an exchange says about itself, for rules that decide which combinations are allowed.
struct exchange_traits {
  bool bit_parity = true;    ///< all peers of the group end with the same bits
  bool own_support = false;  ///< loses nothing where every peer sends coordinates of its own choice (sparse codecs)
  bool residual = false;     ///< fills exchange_row::residual
  bool counts = false;       ///< fills exchange_row::counts
  bool stateful = false;     ///< keeps something from round to round: one object for each row, and checkpoints need it
  bool changes_one = false;  ///< what it makes of one row is another one: a peer that is its whole group calls it, too
};

/// Requirements. For a blocking exchange, call the three in a row.
///
/// - All peers of the group call the three in the same order with the same id, as many values, equal options and contexts
///   that differ only where the codec allows it. The result is Σ w_i x_i / Σ w_i (or what the aggregator makes of it).
/// - An error ends the conversation: what is under way is cancelled, values and residual are unspecified, and the object is
///   as good as new. So do `cancel()` and destroying the object, which must happen before the transport goes. Transport
///   errors name the peer. Values that cannot be used (errc::non_finite, errc::corrupt, errc::protocol) and weights that
///   are all 0 (errc::invalid_argument) fail on all peers alike.
/// - Optional: `alone(row, ctx)`, in place of the three for a peer that is its whole group. Without it, and without
///   exchange_traits::changes_one, such a row stays as it is, as a mean of one is.
/// - `begin` while a conversation is under way cancels that one first.
/// - Threading: one thread at a time. Deterministic: the bits depend on the inputs and the order of the peers alone.
template <class E, class Context>
concept Exchange = Movable<E> && requires(E& e, const exchange_port& port, const exchange_row& row, const Context& ctx) {
  { E::name } -> ConvertibleTo<std::string_view>;
  { E::traits } -> ConvertibleTo<exchange_traits>;
  { e.begin(port, row, ctx) } -> std::same_as<result<void>>;
  { e.turn(port, row, ctx) } -> std::same_as<result<void>>;
  { e.finish(port, row, ctx) } -> std::same_as<result<void>>;
  { e.cancel() } -> std::same_as<void>;
};

/// All three phases in a row.
template <class Context, Exchange<Context> E>
result<void> run_exchange(E& exchange, const exchange_port& port, const exchange_row& row, const Context& ctx) {
  CAUSEWAY_TRY(exchange.begin(port, row, ctx));
  CAUSEWAY_TRY(exchange.turn(port, row, ctx));
  return exchange.finish(port, row, ctx);
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_EXCHANGE_HPP

// ---- causeway/collective/refusal.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_REFUSAL_HPP
#define CAUSEWAY_COLLECTIVE_REFUSAL_HPP

// "The values of peer p cannot be used", as eight bytes. A peer whose values are refused must not make the others wait: a
// collective goes on to its end, tells everybody whose values were refused, and then fails on all peers alike.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Whose values were refused and why. `peer` equal to the number of peers: nobody's; the sum itself is too large for f32
/// (errc::non_finite), there are no weights to divide by (errc::invalid_argument), or the aggregator cannot look at rows on
/// a device (errc::unsupported). Other codes are of this peer's device.
struct refusal {
  std::uint32_t peer = 0;
  errc code = errc::non_finite;
  bool told = false;  ///< by another peer: this one has not seen the values
};

using refusal_bytes = std::array<std::byte, 8>;

CAUSEWAY_DECL refusal_bytes to_bytes(const refusal& r) noexcept;

/// Reads what a peer claims; nullopt when it makes no sense.
CAUSEWAY_DECL std::optional<refusal> from_bytes(std::span<const std::byte> bytes, std::uint32_t peers) noexcept;

/// Keeps one of several refusals: the lowest peer's, so that all peers report the same one. What this peer saw itself
/// counts for more than what it was told of the same peer.
CAUSEWAY_DECL void note(std::optional<refusal>& kept, const refusal& r) noexcept;

/// error::culprit is the refused peer, unless this one was only told.
CAUSEWAY_DECL error to_error(const refusal& r, std::uint32_t peers);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_REFUSAL_HPP

// ---- causeway/collective/impl/refusal.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_REFUSAL_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_REFUSAL_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL refusal_bytes to_bytes(const refusal& r) noexcept {
  const std::uint32_t words[2] = {r.peer, static_cast<std::uint32_t>(r.code)};
  refusal_bytes bytes;
  std::memcpy(bytes.data(), words, sizeof words);
  return bytes;
}

CAUSEWAY_DECL std::optional<refusal> from_bytes(std::span<const std::byte> bytes, std::uint32_t peers) noexcept {
  if (bytes.size() != sizeof(refusal_bytes)) return std::nullopt;
  std::uint32_t words[2];
  std::memcpy(words, bytes.data(), sizeof words);
  const auto code = static_cast<errc>(words[1]);
  const bool known = code == errc::non_finite || code == errc::corrupt || code == errc::protocol;
  const bool of_all = (code == errc::invalid_argument || code == errc::unsupported) && words[0] == peers;
  if (words[0] > peers || words[1] > 0xFFFFU || !(known || of_all)) return std::nullopt;
  return refusal{words[0], code, true};
}

CAUSEWAY_DECL void note(std::optional<refusal>& kept, const refusal& r) noexcept {
  const bool seen = kept && r.peer == kept->peer && !r.told;
  if (!kept || r.peer < kept->peer || seen) kept = r;
}

CAUSEWAY_DECL error to_error(const refusal& r, std::uint32_t peers) {
  if (r.peer == peers && r.code == errc::invalid_argument) {
    return fail(errc::invalid_argument, "exchange",
                "the weights of all peers add up to 0: nobody contributes to this mean");
  }
  if (r.peer == peers && r.code == errc::unsupported) {
    return fail(errc::unsupported, "exchange",
                "tensors are clipped in the computer's memory, and these rows lie on a device; leave clips out, or use a "
                "codec of the computer's memory");
  }
  if (r.peer == peers && r.code != errc::non_finite) {
    return fail(r.code, "exchange", "this peer's device failed while it added the messages");
  }
  if (r.peer == peers) {
    return fail(errc::non_finite, "all-reduce", "the sum of finite values is too large for f32; lower the learning rate");
  }
  const char* what = r.code == errc::non_finite ? "its values hold NaN or infinity; nobody uses this round's result"
                     : r.code == errc::corrupt  ? "its values cannot be decoded; nobody uses this round's result"
                                                : "it sent the wrong number of bytes; do all peers run the same options?";
  error e = fail(r.code, "peer " + std::to_string(r.peer), what);
  if (!r.told) e.culprit = r.peer;
  return e;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_REFUSAL_IPP
#endif

// ---- causeway/collective/exchange_message.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_EXCHANGE_MESSAGE_HPP
#define CAUSEWAY_COLLECTIVE_EXCHANGE_MESSAGE_HPP

// The messages of exchanges: sixteen bytes that say how much the content counts, how many values it is about, and whether
// there is content at all; then what the codec wrote. A peer with nothing to say, or whose sums cannot be used, sends the
// sixteen bytes alone, so that nobody ever waits for a message that does not come.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Bytes in front of the codec's.
inline constexpr std::size_t message_header_bytes = 16;

/// A message as its receiver sees it. Where `bad` has a value, the rest must not be used.
struct peer_message {
  net::peer_index peer = 0;            ///< who sent it
  float weight = 0;                    ///< finite, >= 0; 0: no content
  std::span<const std::byte> bytes{};  ///< what the codec wrote
  std::optional<refusal> bad{};
};

namespace detail {

struct message_header {
  float weight = 0;
  std::uint32_t values = 0;   // of the row or part, modulo 2^32: a check that both sides mean the same
  std::uint32_t refused = 0;  // see refusal; used where code is not 0
  std::uint32_t code = 0;
};
static_assert(sizeof(message_header) == message_header_bytes);

constexpr std::size_t message_slot(std::size_t codec_bytes) { return (message_header_bytes + codec_bytes + 63) / 64 * 64; }

inline constexpr refusal no_refusal{0, errc{}};

CAUSEWAY_DECL void write_header(std::span<std::byte> room, float weight, std::size_t values,
                                const refusal& bad = no_refusal);

/// The header of a peer's own contribution; true when content follows.
CAUSEWAY_DECL bool write_own_header(std::span<std::byte> room, const exchange_row& row, std::size_t values,
                                    net::peer_index self);

/// Reads bytes that anybody may have sent, about `values` values.
CAUSEWAY_DECL peer_message read_message(net::peer_index from, std::span<const std::byte> bytes, std::size_t values,
                                        std::uint32_t peers);

/// Of a contribution: whatever its sender says, it is the one whose values cannot be used. What only sums can be is
/// nonsense.
CAUSEWAY_DECL refusal refused_contribution(net::peer_index from, const refusal& said);

/// 1 / total weight in f32; 0 where that is no number to multiply with.
CAUSEWAY_DECL float mean_factor(double total_weight);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_EXCHANGE_MESSAGE_HPP

// ---- causeway/collective/impl/exchange_message.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_EXCHANGE_MESSAGE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_EXCHANGE_MESSAGE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL void write_header(std::span<std::byte> room, float weight, std::size_t values, const refusal& bad) {
  const message_header h{weight, static_cast<std::uint32_t>(values), bad.peer, static_cast<std::uint32_t>(bad.code)};
  std::memcpy(room.data(), &h, sizeof h);
}

CAUSEWAY_DECL bool write_own_header(std::span<std::byte> room, const exchange_row& row, std::size_t values,
                                    net::peer_index self) {
  CAUSEWAY_EXPECT(row.weight >= 0);
  CAUSEWAY_EXPECT(row.refused == errc{} || row.refused == errc::non_finite || row.refused == errc::corrupt ||
                  row.refused == errc::protocol);
  if (row.refused != errc{}) {
    write_header(room, 0, values, refusal{self, row.refused});
    return false;
  }
  write_header(room, row.weight, values);
  return row.weight > 0;
}

CAUSEWAY_DECL peer_message read_message(net::peer_index from, std::span<const std::byte> bytes, std::size_t values,
                                        std::uint32_t peers) {
  peer_message m{.peer = from};
  message_header h;
  if (bytes.size() < sizeof h) {
    m.bad = refusal{from, errc::protocol};
    return m;
  }
  std::memcpy(&h, bytes.data(), sizeof h);
  m.bytes = bytes.subspan(sizeof h);
  if (h.code != 0) {
    m.bad = from_bytes(bytes.subspan(offsetof(message_header, refused), sizeof(refusal_bytes)), peers)
                .value_or(refusal{from, errc::corrupt});
    if (m.bad->peer == from) m.bad->told = false;  // it says so of itself
  } else if (h.values != static_cast<std::uint32_t>(values)) {
    m.bad = refusal{from, errc::protocol};
  } else if (!std::isfinite(h.weight) || h.weight < 0 || (h.weight == 0 && !m.bytes.empty())) {
    m.bad = refusal{from, errc::corrupt};
  } else {
    m.weight = h.weight;
  }
  return m;
}

CAUSEWAY_DECL refusal refused_contribution(net::peer_index from, const refusal& said) {
  return {from, said.code == errc::invalid_argument ? errc::protocol : said.code};
}

CAUSEWAY_DECL float mean_factor(double total_weight) {
  const float factor = 1.0F / static_cast<float>(total_weight);
  return total_weight > 0 && std::isfinite(factor) ? factor : 0.0F;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_EXCHANGE_MESSAGE_IPP
#endif

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

// ---- causeway/kernels/cpu_features.hpp ----
#ifndef CAUSEWAY_KERNELS_CPU_FEATURES_HPP
#define CAUSEWAY_KERNELS_CPU_FEATURES_HPP

// Which vector instructions a kernel may use, found at run time: a program built for any x86-64 uses what its machine has.
// Functions marked with a CAUSEWAY_TARGET_ macro are compiled for that instruction set whatever the build's flags say; they
// may be called only after detect_simd_level() said so.

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CAUSEWAY_X86_SIMD 1
#define CAUSEWAY_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define CAUSEWAY_TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
#define CAUSEWAY_TARGET_AVX512_BF16 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define CAUSEWAY_TARGET_AMX \
  __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))
#else
#define CAUSEWAY_X86_SIMD 0
#endif

// Before a loop over an array of vectors: unrolled, so that the array lives in registers. nvcc's front end knows no such
// pragma.
#if defined(__CUDACC__)
#define CAUSEWAY_UNROLL
#elif defined(__clang__)
#define CAUSEWAY_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define CAUSEWAY_UNROLL _Pragma("GCC unroll 16")
#else
#define CAUSEWAY_UNROLL
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Instruction sets, each containing the ones before.
enum class simd_level : std::uint8_t {
  portable,     ///< nothing beyond what the compiler was told
  avx2,         ///< AVX2, FMA, F16C
  avx512,       ///< AVX-512 F, BW, VL, DQ
  avx512_bf16,  ///< AVX-512 and its bf16 dot products
  amx_bf16,     ///< tiles of AMX and their bf16 products
};
inline constexpr simd_level simd_levels[] = {simd_level::portable, simd_level::avx2, simd_level::avx512,
                                             simd_level::avx512_bf16, simd_level::amx_bf16};

#if CAUSEWAY_X86_SIMD
namespace detail {

/// Whether this process may use tiles of bf16: the processor has them, the system saves them, and Linux, which is asked
/// here, lets the process have their 8 KiB a thread.
inline bool request_amx() noexcept {
#if defined(__linux__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned os_saves_state = 1U << 27U;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & os_saves_state) == 0) return false;
  constexpr unsigned amx_bf16_and_tile = 1U << 22U | 1U << 24U;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & amx_bf16_and_tile) != amx_bf16_and_tile) return false;
  asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  constexpr unsigned tile_state = 1U << 17U | 1U << 18U;
  if ((a & tile_state) != tile_state) return false;
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM, of Linux 5.16
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace detail
#endif

namespace detail {
inline simd_level simd_limit = simd_level::amx_bf16;
}

/// Leaves out what is above `most`, as on a machine without it: for measurements and tests. Before anything else is called
/// of this library.
inline void limit_simd_level(simd_level most) noexcept { detail::simd_limit = most; }

/// The best level of this machine. Asks the processor, and Linux for the use of AMX, once a process.
inline simd_level detect_simd_level() noexcept {
#if CAUSEWAY_X86_SIMD
  static const simd_level level = std::min(detail::simd_limit, [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return simd_level::portable;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!avx512) return simd_level::avx2;
    if (!__builtin_cpu_supports("avx512bf16")) return simd_level::avx512;
    return detail::request_amx() ? simd_level::amx_bf16 : simd_level::avx512_bf16;
  }());
  return level;
#else
  return simd_level::portable;
#endif
}

constexpr std::string_view to_string(simd_level level) noexcept {
  switch (level) {
    case simd_level::portable: return "portable";
    case simd_level::avx2: return "avx2";
    case simd_level::avx512: return "avx512";
    case simd_level::avx512_bf16: return "avx512, avx512_bf16";
    case simd_level::amx_bf16: return "avx512, amx_bf16";
  }
  return "unknown";
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_CPU_FEATURES_HPP

// ---- causeway/kernels/targets.hpp ----
#ifndef CAUSEWAY_KERNELS_TARGETS_HPP
#define CAUSEWAY_KERNELS_TARGETS_HPP

// One kernel, compiled for several instruction sets, chosen at run time. A kernel is a struct with a static, always
// inlined `run(arguments...)` written with the vectors of simd_math.hpp; `dispatch<Kernel>(level, arguments...)` calls the
// copy of it that was compiled for `level` (AVX-512, AVX2, or what the build's flags allow). So a build with -O2 and
// without -march=native is as quick as one with it. A kernel with `exact = true` is never contracted (a*b+c stays two
// roundings): it gives the same bits at every level, hence on every machine, which replicas that step on their own rely on.

// Contraction is a property of the copy with GCC and of the source text with clang; an exact kernel uses both macros.
#if defined(__clang__)
#define CAUSEWAY_EXACT_COPY
#define CAUSEWAY_EXACT_BODY _Pragma("clang fp contract(off)")
#else
#define CAUSEWAY_EXACT_COPY __attribute__((optimize("fp-contract=off")))
#define CAUSEWAY_EXACT_BODY
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

template <class Kernel, class... Args>
using kernel_result = decltype(Kernel::run(std::declval<Args>()...));

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE kernel_result<Kernel, Args...> run_portable(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_EXACT_COPY kernel_result<Kernel, Args...> run_portable_exact(Args... args) {
  return Kernel::run(args...);
}

#if CAUSEWAY_X86_SIMD
template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 kernel_result<Kernel, Args...> run_avx2(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 CAUSEWAY_EXACT_COPY kernel_result<Kernel, Args...> run_avx2_exact(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 kernel_result<Kernel, Args...> run_avx512(Args... args) {
  return Kernel::run(args...);
}

/// A kernel may have a form of its own, `run_wide`, for machines with registers for 64 bytes, whose vectors of 64 bytes
/// compilers also compare and narrow in single instructions.
template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 CAUSEWAY_EXACT_COPY kernel_result<Kernel, Args...> run_avx512_exact(Args... args) {
  if constexpr (requires { Kernel::run_wide(args...); }) {
    return Kernel::run_wide(args...);
  } else {
    return Kernel::run(args...);
  }
}
#endif

/// Calls the copy of `Kernel::run` for `level`, which this machine must support.
template <class Kernel, class... Args>
inline kernel_result<Kernel, Args...> dispatch(simd_level level, Args... args) {
  constexpr bool exact = Kernel::exact;
#if CAUSEWAY_X86_SIMD
  if constexpr (exact) {
    if (level >= simd_level::avx512) return run_avx512_exact<Kernel>(args...);
    if (level == simd_level::avx2) return run_avx2_exact<Kernel>(args...);
  } else {
    if (level >= simd_level::avx512) return run_avx512<Kernel>(args...);
    if (level == simd_level::avx2) return run_avx2<Kernel>(args...);
  }
#endif
  (void)level;
  if constexpr (exact) {
    return run_portable_exact<Kernel>(args...);
  } else {
    return run_portable<Kernel>(args...);
  }
}

/// Fewer elements than this are not worth waking a second thread for.
inline constexpr std::int64_t smallest_share = 16384;

/// Cuts [0, count) among the threads at multiples of 64 elements, so that no two of them write one cache line.
template <class F>
void for_elements(thread_pool& pool, std::int64_t count, F&& f) {
  if (count <= smallest_share) {
    if (count > 0) f(index_range{0, count});
  } else {
    pool.for_range(count, 64, f);
  }
}

/// Cuts [0, rows) among the threads, or leaves all rows with the caller when `rows * columns` is small.
template <class F>
void for_rows(thread_pool& pool, std::int64_t rows, std::int64_t columns, F&& f) {
  if (rows * columns <= smallest_share) {
    if (rows > 0) f(index_range{0, rows});
  } else {
    pool.for_range(rows, 1, f);
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

// In compiled mode the library has the copies of a kernel, and nobody else compiles them. Below a kernel, outside of all
// namespaces, for each list of arguments that it is called with: CAUSEWAY_EXACT_KERNEL((float*, const float*), add_kernel).
#if !defined(CAUSEWAY_COMPILED)
#define CAUSEWAY_KERNEL_COPIES(suffix, arguments, ...)
#else
#if defined(CAUSEWAY_DEFINE_KERNELS) || defined(CAUSEWAY_IMPLEMENTATION)
#define CAUSEWAY_KERNEL_COPY(function, arguments, ...) \
  template kernel_result<__VA_ARGS__, CAUSEWAY_THESE arguments> function<__VA_ARGS__> arguments;
#else
#define CAUSEWAY_KERNEL_COPY(function, arguments, ...) \
  extern template kernel_result<__VA_ARGS__, CAUSEWAY_THESE arguments> function<__VA_ARGS__> arguments;
#endif
#if CAUSEWAY_X86_SIMD
#define CAUSEWAY_X86_KERNEL_COPY CAUSEWAY_KERNEL_COPY
#else
#define CAUSEWAY_X86_KERNEL_COPY(function, arguments, ...)
#endif
#define CAUSEWAY_KERNEL_COPIES(suffix, arguments, ...)                                        \
  namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail { \
  CAUSEWAY_KERNEL_COPY(run_portable##suffix, arguments, __VA_ARGS__)                          \
  CAUSEWAY_X86_KERNEL_COPY(run_avx2##suffix, arguments, __VA_ARGS__)                          \
  CAUSEWAY_X86_KERNEL_COPY(run_avx512##suffix, arguments, __VA_ARGS__)                        \
  }}}                                                                                         \
  }
#define CAUSEWAY_THESE(...) __VA_ARGS__
#endif
#define CAUSEWAY_EXACT_KERNEL(arguments, ...) CAUSEWAY_KERNEL_COPIES(_exact, arguments, __VA_ARGS__)
#define CAUSEWAY_FAST_KERNEL(arguments, ...) CAUSEWAY_KERNEL_COPIES(, arguments, __VA_ARGS__)

#endif  // CAUSEWAY_KERNELS_TARGETS_HPP

// ---- causeway/tensor/dtype.hpp ----
#ifndef CAUSEWAY_TENSOR_DTYPE_HPP
#define CAUSEWAY_TENSOR_DTYPE_HPP

// Element types and their conversions. Sums are always made in f32; bf16 and f16 are storage.

namespace causeway { inline namespace CAUSEWAY_ABI {

/// bfloat16: the upper half of an f32. Rounds to nearest even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  CAUSEWAY_HD constexpr explicit bf16(float value) noexcept : bits{encode(value)} {}
  CAUSEWAY_HD constexpr explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
  friend constexpr bool operator==(const bf16&, const bf16&) = default;

 private:
  CAUSEWAY_HD static constexpr std::uint16_t encode(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((u >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((u + 0x7FFFU + ((u >> 16U) & 1U)) >> 16U);
  }
};

/// IEEE half precision, as storage. Rounds to nearest even; values beyond 65504 become infinite.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  CAUSEWAY_HD constexpr explicit f16(float value) noexcept : bits{encode(value)} {}
  CAUSEWAY_HD constexpr explicit operator float() const noexcept { return decode(bits); }
  friend constexpr bool operator==(const f16&, const f16&) = default;

 private:
  CAUSEWAY_HD static constexpr std::uint16_t encode(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((u >> 16U) & 0x8000U);
    const std::uint32_t magnitude = u & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);   // NaN
    if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // rounds beyond 65504
    if (magnitude < 0x33000001U) return sign;                                         // rounds to zero
    const int exponent = static_cast<int>(magnitude >> 23U) - 127;
    std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    const int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;  // subnormals lose more bits
    const std::uint32_t half = 1U << (shift - 1);
    const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
    mantissa >>= shift;
    if (rest > half || (rest == half && (mantissa & 1U) != 0)) ++mantissa;
    const std::uint32_t biased = exponent < -14 ? 0U : static_cast<std::uint32_t>(exponent + 14) << 10U;
    return static_cast<std::uint16_t>(sign | (biased + mantissa));  // a carry moves into the exponent, as it should
  }

  CAUSEWAY_HD static constexpr float decode(std::uint16_t h) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16U;
    const std::uint32_t exponent = (h >> 10U) & 0x1FU;
    const std::uint32_t mantissa = h & 0x3FFU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
};

enum class dtype : std::uint8_t { f32 = 0, bf16 = 1, f16 = 2, i32 = 3, i8 = 4, u8 = 5 };

constexpr std::size_t size_of(dtype t) noexcept {
  switch (t) {
    case dtype::f32:
    case dtype::i32: return 4;
    case dtype::bf16:
    case dtype::f16: return 2;
    case dtype::i8:
    case dtype::u8: return 1;
  }
  return 0;
}

constexpr std::string_view to_string(dtype t) noexcept {
  switch (t) {
    case dtype::f32: return "f32";
    case dtype::bf16: return "bf16";
    case dtype::f16: return "f16";
    case dtype::i32: return "i32";
    case dtype::i8: return "i8";
    case dtype::u8: return "u8";
  }
  return "unknown";
}

namespace detail {
template <class T>
struct element_type;  // no definition: a type that cannot be an element must not pass for one
}

template <class T>
inline constexpr dtype dtype_of = detail::element_type<T>::value;
template <>
inline constexpr dtype dtype_of<float> = dtype::f32;
template <>
inline constexpr dtype dtype_of<bf16> = dtype::bf16;
template <>
inline constexpr dtype dtype_of<f16> = dtype::f16;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::i32;
template <>
inline constexpr dtype dtype_of<std::int8_t> = dtype::i8;
template <>
inline constexpr dtype dtype_of<std::uint8_t> = dtype::u8;

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_DTYPE_HPP

// ---- causeway/kernels/simd_math.hpp ----
#ifndef CAUSEWAY_KERNELS_SIMD_MATH_HPP
#define CAUSEWAY_KERNELS_SIMD_MATH_HPP

// Sixteen lanes at a time, written once with the compilers' generic vectors; the kernel copies of targets.hpp decide what
// they become (one AVX-512 register, two AVX2, four SSE2). Arithmetic is the built-in operators; what they lack is here.
// Some of it also takes eight lanes: GCC keeps vectors wider than the machine's in memory where they live across a loop or
// come out of one of two ways.
// Everything takes and returns vectors by reference: a vector by value in a function that is not compiled for its register
// size has no settled calling convention, and compilers say so, even where all is inlined.

#if defined(__x86_64__)
#include <xmmintrin.h>  // not immintrin.h, which has 39,000 lines: every program reads this one
#endif

// A lambda inside a kernel, inlined whatever the compiler thinks of its size.
#define CAUSEWAY_INLINE_LAMBDA __attribute__((always_inline))

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

using f32x16 [[gnu::vector_size(64)]] = float;
using i32x16 [[gnu::vector_size(64)]] = std::int32_t;
using u32x16 [[gnu::vector_size(64)]] = std::uint32_t;
using u16x16 [[gnu::vector_size(32)]] = std::uint16_t;
using f32x8 [[gnu::vector_size(32)]] = float;
using i32x8 [[gnu::vector_size(32)]] = std::int32_t;
using u32x8 [[gnu::vector_size(32)]] = std::uint32_t;
using u16x8 [[gnu::vector_size(16)]] = std::uint16_t;
using f32x4 [[gnu::vector_size(16)]] = float;

inline constexpr std::int64_t vector_lanes = 16;

/// The integers, and the half-wide ones, with as many lanes as a vector of floats.
template <class Floats>
struct lanes_of;
template <>
struct lanes_of<f32x16> {
  using bits = u32x16;
  using integers = i32x16;
  using halves = u16x16;
};
template <>
struct lanes_of<f32x8> {
  using bits = u32x8;
  using integers = i32x8;
  using halves = u16x8;
};
template <class Floats>
using bits_of = typename lanes_of<Floats>::bits;
template <class Floats>
using halves_of = typename lanes_of<Floats>::halves;

/// Marks a whole vector of lanes, against `tail`: the first `count` of them.
struct whole {};
struct tail {
  std::int64_t count;
};

/// Calls `body(i, whole)` for i = 0, 16, ... (8, ... with vectors of eight lanes) and `body(i, tail)` for what is left of
/// [0, count).
template <class Floats = f32x16, class Body>
CAUSEWAY_ALWAYS_INLINE void for_lanes(std::int64_t count, Body&& body) {
  constexpr auto lanes = static_cast<std::int64_t>(sizeof(Floats) / sizeof(float));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, whole{});
  if (i < count) body(i, tail{count - i});
}

// ---- loads and stores: f32 in registers, f32, bf16 or f16 in memory ------------------------------------------------

template <class Floats>
CAUSEWAY_ALWAYS_INLINE void load(Floats& v, const float* p, whole) {
  std::memcpy(&v, p, sizeof v);
}
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void store(float* p, const Floats& v, whole) {
  std::memcpy(p, &v, sizeof v);
}

template <class Floats>
CAUSEWAY_ALWAYS_INLINE void widen(Floats& v, const halves_of<Floats>& raw, const bf16*) {
  const bits_of<Floats> bits = __builtin_convertvector(raw, bits_of<Floats>) << 16U;
  v = reinterpret_cast<Floats>(bits);
}

// Below, lanes are told apart by arithmetic, since GCC takes comparisons of vectors wider than the machine's apart into
// single elements: a mask of all ones where `least` > value, for values whose sign bit is not set.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void mask_below(bits_of<Floats>& mask, const bits_of<Floats>& value, std::int32_t least) {
  using integers = typename lanes_of<Floats>::integers;
  mask = reinterpret_cast<bits_of<Floats>>((reinterpret_cast<integers>(value) - least) >> 31);
}
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void mask_above(bits_of<Floats>& mask, const bits_of<Floats>& value, std::int32_t most) {
  using integers = typename lanes_of<Floats>::integers;
  mask = reinterpret_cast<bits_of<Floats>>((most - reinterpret_cast<integers>(value)) >> 31);
}
inline constexpr std::int32_t f32_infinity = 0x7F800000;

/// Rounds to nearest even; a NaN stays one.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void narrow(halves_of<Floats>& raw, const Floats& v, const bf16*) {
  const bits_of<Floats> bits = reinterpret_cast<bits_of<Floats>>(v);
  const bits_of<Floats> rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  bits_of<Floats> not_a_number;
  mask_above<Floats>(not_a_number, bits & 0x7FFFFFFFU, f32_infinity);
  const bits_of<Floats> result = (rounded & ~not_a_number) | ((bits | 0x400000U) & not_a_number);
  raw = __builtin_convertvector(result >> 16U, halves_of<Floats>);
}

/// Subnormals become fractions behind a leading 1, which a subtraction takes away: nothing here is a subnormal f32, which
/// Intel's processors hand to microcode, at 150 cycles an instruction.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void widen(Floats& v, const halves_of<Floats>& raw, const f16*) {
  const bits_of<Floats> half = __builtin_convertvector(raw, bits_of<Floats>);
  const bits_of<Floats> shifted = (half & 0x7FFFU) << 13U;
  const bits_of<Floats> normal = shifted + (112U << 23U);
  const Floats subnormal = reinterpret_cast<Floats>(shifted + (113U << 23U)) - 0x1.0p-14F;
  bits_of<Floats> is_subnormal, infinite;
  mask_below<Floats>(is_subnormal, shifted, 0x00800000);
  mask_above<Floats>(infinite, shifted, 0x0F7FFFFF);
  const bits_of<Floats> magnitude =
      (reinterpret_cast<bits_of<Floats>>(subnormal) & is_subnormal) | (normal & ~is_subnormal) | (infinite & 0x7F800000U);
  const bits_of<Floats> bits = magnitude | ((half & 0x8000U) << 16U);
  v = reinterpret_cast<Floats>(bits);
}

/// Rounds to nearest even. Subnormals are rounded by the addition of a number whose last bit is theirs.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void narrow(halves_of<Floats>& raw, const Floats& v, const f16*) {
  const bits_of<Floats> bits = reinterpret_cast<bits_of<Floats>>(v);
  const bits_of<Floats> magnitude = bits & 0x7FFFFFFFU;
  const bits_of<Floats> normal = (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
  const Floats shifted = reinterpret_cast<Floats>(magnitude) + 0.5F;
  const bits_of<Floats> subnormal = reinterpret_cast<bits_of<Floats>>(shifted) - 0x3F000000U;
  bits_of<Floats> is_subnormal, is_infinite, is_not_a_number;
  mask_below<Floats>(is_subnormal, magnitude, 0x38800000);
  mask_above<Floats>(is_infinite, magnitude, 0x477FEFFF);
  mask_above<Floats>(is_not_a_number, magnitude, f32_infinity);
  bits_of<Floats> half = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  half = (half & ~is_infinite) | (0x7C00U & is_infinite) | (0x200U & is_not_a_number);
  raw = __builtin_convertvector(half | ((bits >> 16U) & 0x8000U), halves_of<Floats>);
}

template <class Floats, class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void load(Floats& v, const Half* p, whole) {
  halves_of<Floats> raw;
  std::memcpy(&raw, p, sizeof raw);
  widen(v, raw, p);
}

template <class Floats, class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void store(Half* p, const Floats& v, whole) {
  halves_of<Floats> raw;
  narrow(raw, v, p);
  std::memcpy(static_cast<void*>(p), &raw, sizeof raw);
}

/// Lanes beyond the tail read as zero.
template <class Floats, class T>
CAUSEWAY_ALWAYS_INLINE void load(Floats& v, const T* p, tail part) {
  T padded[sizeof(Floats) / sizeof(float)] = {};
  std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(T));
  load(v, padded, whole{});
}

template <class Floats, class T>
CAUSEWAY_ALWAYS_INLINE void store(T* p, const Floats& v, tail part) {
  T padded[sizeof(Floats) / sizeof(float)];
  store(padded, v, whole{});
  std::memcpy(static_cast<void*>(p), padded, static_cast<std::size_t>(part.count) * sizeof(T));
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

CAUSEWAY_ALWAYS_INLINE void broadcast(f32x16& v, float value) { v = value - f32x16{}; }

/// Square roots in place, correctly rounded. Quarter by quarter: four narrow instructions take as long as one wide one.
CAUSEWAY_ALWAYS_INLINE void square_root(f32x16& v) {
#if defined(__x86_64__)
  f32x4 a = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  f32x4 b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  f32x4 c = __builtin_shufflevector(v, v, 8, 9, 10, 11);
  f32x4 d = __builtin_shufflevector(v, v, 12, 13, 14, 15);
  a = _mm_sqrt_ps(a);
  b = _mm_sqrt_ps(b);
  c = _mm_sqrt_ps(c);
  d = _mm_sqrt_ps(d);
  const f32x8 low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  const f32x8 high = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  v = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  for (int lane = 0; lane < 16; ++lane) v[lane] = std::sqrt(v[lane]);
#endif
}

/// What is beyond ±87 becomes ±87; NaN stays. By masks: comparisons would cost six times as much as all of e^x with AVX2.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void clamp_to_87(Floats& x) {
  constexpr std::uint32_t limit = 0x42AE0000;  // 87
  const bits_of<Floats> bits = reinterpret_cast<bits_of<Floats>>(x);
  const bits_of<Floats> magnitude = bits & 0x7FFFFFFFU;
  bits_of<Floats> beyond, not_a_number;
  mask_above<Floats>(beyond, magnitude, limit);
  mask_above<Floats>(not_a_number, magnitude, f32_infinity);
  beyond &= ~not_a_number;
  x = reinterpret_cast<Floats>((bits & ~beyond) | (((bits & 0x80000000U) | limit) & beyond));
}

/// e^x in place, relative error below 1e-7 (Cephes' polynomial). Arguments beyond ±87 are taken as ±87, so that neither
/// the result nor its reciprocal is subnormal or infinite; NaN stays NaN.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void exponential(Floats& x) {
  constexpr float round = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  clamp_to_87(x);
  const Floats shifted = x * 1.44269504088896341F + round;
  const Floats n = shifted - round;
  const Floats r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r;
  const bits_of<Floats> power = (reinterpret_cast<bits_of<Floats>>(shifted) + (127U - 0x4B400000U)) << 23U;
  const Floats scale = reinterpret_cast<Floats>(power);
  x = p * scale + scale;
}

/// The logistic function of -x in place: 1 / (1 + e^x).
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void sigmoid_of_minus(Floats& x) {
  exponential(x);
  x = 1.0F / (1.0F + x);
}

/// The sum of all lanes, in an order of its own that is the same everywhere.
CAUSEWAY_ALWAYS_INLINE float horizontal_sum(const f32x16& v) {
  const f32x4 a = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 8, 9, 10, 11);
  const f32x4 b = __builtin_shufflevector(v, v, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 12, 13, 14, 15);
  const f32x4 c = a + b;
  return (c[0] + c[2]) + (c[1] + c[3]);
}

/// Sum of `term(v, i)`, which puts what is to be added for i to i + 7 into v, over the whole sixteens of [0, count), and of
/// `last(i)` for what is left. In vectors of 32 bytes: GCC keeps sums of 64 bytes in memory where the machine has no
/// registers for them. Four sums of sixteen lanes, because one would wait for itself.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE float sum_lanes(std::int64_t count, Term&& term, Last&& last) {
  CAUSEWAY_EXACT_BODY
  f32x8 sums[8] = {};
  const auto add = [&](f32x8& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
    CAUSEWAY_EXACT_BODY
    f32x8 v;
    term(v, i);
    sum += v;
  };
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    CAUSEWAY_UNROLL
    for (std::int64_t k = 0; k < 8; ++k) add(sums[k], i + 8 * k);
  }
  for (; i + 16 <= count; i += 16) {
    add(sums[0], i);
    add(sums[1], i + 8);
  }
  const f32x8 low = (sums[0] + sums[2]) + (sums[4] + sums[6]);
  const f32x8 high = (sums[1] + sums[3]) + (sums[5] + sums[7]);
  float sum = horizontal_sum(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  for (; i < count; ++i) sum += last(i);
  return sum;
}

/// A sum of sixteen lanes that lives across a loop: in halves, as those of sum_lanes.
class lane_sum {
 public:
  CAUSEWAY_ALWAYS_INLINE void add(const f32x16& v) {
    low_ += __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
    high_ += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  [[nodiscard]] CAUSEWAY_ALWAYS_INLINE float total() const {
    return horizontal_sum(__builtin_shufflevector(low_, high_, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  }

 private:
  f32x8 low_{}, high_{};
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_SIMD_MATH_HPP

// ---- causeway/kernels/convert.hpp ----
#ifndef CAUSEWAY_KERNELS_CONVERT_HPP
#define CAUSEWAY_KERNELS_CONVERT_HPP

// Between f32 and the two 16-bit formats, rounding to nearest even. Bit for bit what the constructors of bf16 and f16 do.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// What activations are stored as.
template <class T>
concept Activation = std::same_as<T, float> || std::same_as<T, bf16>;

namespace detail {

struct convert_kernel {
  static constexpr bool exact = true;
  template <class From, class To>
  CAUSEWAY_ALWAYS_INLINE static void run(const From* from, To* to, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, from + i, part);
      store(to + i, v, part);
    });
  }
};

}  // namespace detail

/// to[i] = from[i] for `count` elements, from f32, bf16 or f16 to f32, or from f32 to one of them: values beyond 65504
/// become infinite in f16. From f32 to f32 a copy, so that code for either activation type needs no special case. Moves 6
/// bytes an element, a copy 8.
template <class From, class To>
  requires(std::same_as<From, float> || std::same_as<To, float>)
void convert(thread_pool& pool, const From* from, To* to, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::convert_kernel>(level, from + part.begin, to + part.begin, part.size());
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((const float*, bf16*, std::int64_t), convert_kernel)

#endif  // CAUSEWAY_KERNELS_CONVERT_HPP

// ---- causeway/kernels/elementwise.hpp ----
#ifndef CAUSEWAY_KERNELS_ELEMENTWISE_HPP
#define CAUSEWAY_KERNELS_ELEMENTWISE_HPP

// Vector arithmetic on flat arrays. One rounding an operation at every level, so replicas that apply the same update to the
// same numbers stay equal bit for bit whatever processors they run on.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

struct add_kernel {
  static constexpr bool exact = true;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(T* y, const T* a, const T* b, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 va, vb;
      load(va, a + i, part);
      load(vb, b + i, part);
      store(y + i, va + vb, part);
    });
  }
};

struct subtract_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, const float* a, const float* b, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 va, vb;
      load(va, a + i, part);
      load(vb, b + i, part);
      store(y + i, va - vb, part);
    });
  }
};

struct axpy_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float alpha, const float* x, std::int64_t count) {
    CAUSEWAY_EXACT_BODY
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 vy, vx;
      load(vy, y + i, part);
      load(vx, x + i, part);
      store(y + i, vy + alpha * vx, part);
    });
  }
};

struct scale_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float alpha, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, y + i, part);
      store(y + i, alpha * v, part);
    });
  }
};

struct lerp_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, const float* x, float weight, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 vy, vx;
      load(vy, y + i, part);
      load(vx, x + i, part);
      store(y + i, vy + weight * (vx - vy), part);
    });
  }
};

struct fill_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float value, std::int64_t count) {
    f32x16 v;
    broadcast(v, value);
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA { store(y + i, v, part); });
  }
};

}  // namespace detail

/// y = a + b; y may be a or b. Moves 12 bytes an element (f32), 6 (bf16).
template <Activation T>
void add(thread_pool& pool, T* y, const T* a, const T* b, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::add_kernel>(level, y + part.begin, a + part.begin, b + part.begin, part.size());
  });
}

/// y = a - b; y may be a or b. Moves 12 bytes an element.
inline void subtract(thread_pool& pool, float* y, const float* a, const float* b, std::int64_t count,
                     simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::subtract_kernel>(level, y + part.begin, a + part.begin, b + part.begin, part.size());
  });
}

/// y += alpha * x. Moves 12 bytes an element.
inline void axpy(thread_pool& pool, float* y, float alpha, const float* x, std::int64_t count,
                 simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::axpy_kernel>(level, y + part.begin, alpha, x + part.begin, part.size());
  });
}

/// y *= alpha. Moves 8 bytes an element.
inline void scale(thread_pool& pool, float* y, float alpha, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::scale_kernel>(level, y + part.begin, alpha, part.size());
  });
}

/// y += weight * (x - y): y for weight 0, x (but for rounding) for weight 1. Moves 12 bytes an element.
inline void lerp(thread_pool& pool, float* y, const float* x, float weight, std::int64_t count,
                 simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::lerp_kernel>(level, y + part.begin, x + part.begin, weight, part.size());
  });
}

/// y = value. Moves 4 bytes an element.
inline void fill(thread_pool& pool, float* y, float value, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::fill_kernel>(level, y + part.begin, value, part.size());
  });
}

/// All bytes zero, whatever the type.
template <class T>
  requires std::is_trivially_copyable_v<T>
void zero(thread_pool& pool, T* y, std::int64_t count) {
  detail::for_elements(pool, count, [&](index_range part) {
    std::memset(static_cast<void*>(y + part.begin), 0, static_cast<std::size_t>(part.size()) * sizeof(T));
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((float*, const float*, const float*, std::int64_t), add_kernel)
CAUSEWAY_EXACT_KERNEL((bf16*, const bf16*, const bf16*, std::int64_t), add_kernel)
CAUSEWAY_EXACT_KERNEL((float*, const float*, const float*, std::int64_t), subtract_kernel)
CAUSEWAY_EXACT_KERNEL((float*, float, const float*, std::int64_t), axpy_kernel)
CAUSEWAY_EXACT_KERNEL((float*, float, std::int64_t), scale_kernel)

#endif  // CAUSEWAY_KERNELS_ELEMENTWISE_HPP

// ---- causeway/collective/message_codec.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_MESSAGE_CODEC_HPP
#define CAUSEWAY_COLLECTIVE_MESSAGE_CODEC_HPP

// What an exchange needs of a codec and of its context. Every compress::MessageCodec is one, with
// compress::message_context; the codecs themselves live elsewhere. Also: what a context becomes for a part of the row, so
// that a row can be cut among peers that each reduce a part of it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// What a codec is told besides the values: where matrices lie in the row (ascending, apart), seeds, a reference row.
template <class X>
concept MessageContext = std::copy_constructible<X> && requires(X& x) {
  { x.pool } -> ConvertibleTo<thread_pool&>;
  { x.matrices.front().offset } -> ConvertibleTo<std::size_t>;
  { x.matrices.front().rows } -> ConvertibleTo<std::size_t>;
  { x.matrices.front().columns } -> ConvertibleTo<std::size_t>;
  { x.seed } -> ConvertibleTo<std::uint64_t>;
  { x.own_seed } -> ConvertibleTo<std::uint64_t>;
  { x.reference } -> ConvertibleTo<std::span<const float>>;
};

/// See compress::MessageCodec, which says what the members do.
template <class C, class X>
concept MessageCodec = Copyable<C> && MessageContext<X> &&
    requires(const C& c, const X& ctx, std::size_t n, std::span<const float> values, std::span<std::byte> room,
             std::span<const std::byte> bytes, std::span<float> sum, float weight) {
  {bool{C::traits.sparse}};
  {bool{C::traits.transform}};
  { c.most_bytes(ctx, n) } -> std::same_as<std::size_t>;
  { c.encode(ctx, values, room) } -> std::same_as<std::size_t>;
  { c.decode_add(ctx, bytes, sum, weight, sum) } -> std::same_as<result<void>>;
  requires !C::traits.transform || requires { c.inverse(ctx, sum); };
};

/// A codec that does what a mean does with rows before and after it adds messages, where rows lie in memory that the host
/// had better not touch (cuda/codec.hpp): those that it `keeps`, because they lie in its `memory()`. `divide` makes each
/// value, divided by its count where there are counts and its is above 0, factor times as large; errc::non_finite when one
/// is then not finite.
template <class C>
concept RowCodec = requires(const C& c, std::span<float> row, std::span<const float> counts, float factor) {
  { c.keeps(counts) } -> std::same_as<bool>;
  { c.memory() } -> std::same_as<memory_source>;
  c.clear(row);
  c.copy(row, counts);
  { c.divide(row, counts, factor) } -> std::same_as<result<void>>;
  c.to_signs(row);
};

namespace detail {

/// The codec that may keep rows: `codec`, or what it makes messages of.
const auto& row_codec(const auto& codec) {
  if constexpr (requires { codec.codec(); }) {
    return codec.codec();
  } else {
    return codec;
  }
}
template <class C>
inline constexpr bool may_keep_rows = RowCodec<std::remove_cvref_t<decltype(row_codec(std::declval<const C&>()))>>;

/// Whether the codec's own arithmetic is for these rows; empty ones are no matter.
template <class C>
bool is_kept(const C& codec, std::span<const float> row, std::span<const float> also = {}) {
  if constexpr (may_keep_rows<C>) {
    return row_codec(codec).keeps(row) && (also.empty() || row_codec(codec).keeps(also));
  } else {
    return false;
  }
}

/// row = 0.
template <class C>
void clear(const C& codec, thread_pool& pool, std::span<float> row) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(codec, row)) return row_codec(codec).clear(row);
  }
  kernels::zero(pool, row.data(), static_cast<std::int64_t>(row.size()));
}

/// to = from.
template <class C>
void copy_row(const C& codec, std::span<const float> from, std::span<float> to) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(codec, from, to)) return row_codec(codec).copy(to, from);
  }
  std::copy(from.begin(), from.end(), to.begin());
}

/// Turns coefficients into values, where the codec sends coefficients.
template <class C, class X>
void invert(const C& codec, const X& ctx, std::span<float> row) {
  if constexpr (C::traits.transform) codec.inverse(ctx, row);
}

/// residual = values − what `bytes` decodes to. Values that do not decode are refused later, by everybody alike.
template <class C, class X>
void subtract_message(const C& codec, const X& ctx, std::span<const float> values, std::span<const std::byte> bytes,
                      std::span<float> residual) {
  if constexpr (C::traits.transform) {
    std::fill(residual.begin(), residual.end(), 0.0F);
    if (!codec.decode_add(ctx, bytes, residual, -1.0F, {})) return;
    codec.inverse(ctx, residual);
    kernels::axpy(ctx.pool, residual.data(), 1.0F, values.data(), static_cast<std::int64_t>(values.size()));
  } else {
    copy_row(codec, values, residual);
    (void)codec.decode_add(ctx, bytes, residual, -1.0F, {});
  }
}

/// Encodes; unless empty, residual = values − what the message decodes to. A codec may do both at once.
template <class C, class X>
std::size_t encode_keeping(const C& codec, const X& ctx, std::span<const float> values, std::span<std::byte> room,
                           std::span<float> residual) {
  if constexpr (requires { codec.encode(ctx, values, room, residual); }) {
    if (!residual.empty()) return codec.encode(ctx, values, room, residual);
  }
  const std::size_t used = codec.encode(ctx, values, room);
  if (!residual.empty()) subtract_message(codec, ctx, values, room.first(used), residual);
  return used;
}

/// A peer's own message about its row, and what that leaves out; its length. Who has nothing to say keeps all of it.
std::size_t write_contribution(const auto& codec, const auto& ctx, const exchange_row& row, std::span<std::byte> room,
                               net::peer_index self) {
  if (write_own_header(room, row, row.values.size(), self)) {
    const auto body = room.subspan(message_header_bytes);
    return message_header_bytes + encode_keeping(codec, ctx, row.values, body, row.residual);
  }
  if (!row.residual.empty()) copy_row(codec, row.values, row.residual);
  return message_header_bytes;
}

/// row = what the message says that all peers take, as values; or why there is none.
std::optional<refusal> adopt_message(const auto& codec, const auto& ctx, const peer_message& m, std::span<float> row) {
  if (m.bad) return m.bad;
  clear(codec, ctx.pool, row);
  const auto added = codec.decode_add(ctx, m.bytes, row, 1.0F, {});
  if (!added) return refusal{m.peer, added.error().code};
  invert(codec, ctx, row);
  return std::nullopt;
}

/// Whether a sum that was encoded decodes to finite values. Who adds up says so before it sends, so that a receiver knows
/// whose fault it is. `room` is overwritten.
template <class C, class X>
bool is_finite(const C& codec, const X& ctx, std::span<const std::byte> bytes, std::span<float> room) {
  kernels::zero(ctx.pool, room.data(), static_cast<std::int64_t>(room.size()));
  return codec.decode_add(ctx, bytes, room, 1.0F, {}).has_value();
}

/// Values may be cut at multiples of this without cutting what the codec keeps together.
std::size_t block_of(const auto& codec) {
  if constexpr (requires { codec.block(); }) {
    return codec.block();
  } else if constexpr (requires { codec.codec().block(); }) {
    return codec.codec().block();
  } else {
    return 1;
  }
}

/// The matrices of [begin, end) of a row, relative to `begin`. A matrix that is cut becomes up to three: what is left of
/// the first row, whole rows, what is there of the last one.
template <class Matrix>
void matrices_of_part(std::span<const Matrix> all, std::size_t begin, std::size_t end, std::vector<Matrix>& part) {
  part.clear();
  for (const Matrix& m : all) {
    if (m.rows == 0 || m.columns == 0) continue;
    std::size_t at = std::max(m.offset, begin);
    const std::size_t last = std::min(m.offset + m.rows * m.columns, end);
    while (at < last) {
      const std::size_t column = (at - m.offset) % m.columns;
      const std::size_t whole = column == 0 ? (last - at) / m.columns : 0;
      Matrix piece = m;
      piece.offset = at - begin;
      piece.rows = std::max(whole, std::size_t{1});
      piece.columns = whole > 0 ? m.columns : std::min(m.columns - column, last - at);
      part.push_back(piece);
      at += piece.rows * piece.columns;
    }
  }
}

/// The context of part `index` of a row: [begin, end) of it. `matrices` is where its list of matrices lies. Parts have
/// seeds of their own, so that they do not all leave out the same places.
template <MessageContext X>
X context_of_part(const X& ctx, std::uint64_t index, std::size_t begin, std::size_t end, auto& matrices) {
  X part{ctx};
  matrices_of_part(ctx.matrices, begin, end, matrices);
  part.matrices = matrices;
  part.seed = rng{ctx.seed, index}.next();
  part.own_seed = rng{ctx.own_seed, index}.next();
  const std::span<const float> reference = ctx.reference;
  if (!reference.empty()) part.reference = reference.subspan(begin, end - begin);
  return part;
}

/// What holds the matrices of a part's context.
template <MessageContext X>
using matrix_list = std::vector<std::remove_cv_t<std::remove_reference_t<decltype(std::declval<X&>().matrices.front())>>>;

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_MESSAGE_CODEC_HPP

// ---- causeway/kernels/finite.hpp ----
#ifndef CAUSEWAY_KERNELS_FINITE_HPP
#define CAUSEWAY_KERNELS_FINITE_HPP

// The look for NaN and infinity, alone or while values are converted to f32: one loop for all who read what others sent.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Whether all elements that it has seen are finite, by their bits: adding one to an exponent of all ones carries into the
/// highest bit. In vectors of 32 bytes, as sums are.
template <class Element>
class exponent_watch {
  using integer = std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>;
  using vector [[gnu::vector_size(32)]] = integer;
  static constexpr auto exponent = static_cast<integer>(std::is_same_v<Element, float>  ? 0x7F800000U
                                                        : std::is_same_v<Element, bf16> ? 0x7F80U
                                                                                        : 0x7C00U);
  static constexpr integer unit = exponent & (0U - exponent);
  static constexpr std::size_t lanes = sizeof(vector) / sizeof(integer), parts = 16 / lanes;

 public:
  CAUSEWAY_ALWAYS_INLINE void see(const Element* p, whole) {
    for (std::size_t k = 0; k < parts; ++k) {
      vector bits;
      std::memcpy(&bits, p + k * lanes, sizeof bits);
      seen_[k] |= (bits & exponent) + unit;
    }
  }
  CAUSEWAY_ALWAYS_INLINE void see(const Element* p, tail part) {
    Element padded[16] = {};
    std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(Element));
    see(padded, whole{});
  }
  [[nodiscard]] CAUSEWAY_ALWAYS_INLINE bool all_finite() const {
    integer all = 0;
    for (std::size_t k = 0; k < parts; ++k) {
      for (std::size_t lane = 0; lane < lanes; ++lane) all = static_cast<integer>(all | seen_[k][lane]);
    }
    return all >> (8 * sizeof(integer) - 1) == 0;
  }

 private:
  vector seen_[parts] = {};
};

/// Whether all elements are finite; with `to`, they also become f32 there, bit by bit where they are.
struct finite_kernel {
  static constexpr bool exact = true;

  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static bool run(const Element* from, std::int64_t count) {
    return look(from, count, [](std::int64_t, auto) CAUSEWAY_INLINE_LAMBDA {});
  }
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static bool run(const Element* from, float* to, std::int64_t count) {
    return look(from, count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, from + i, part);
      store(to + i, v, part);
    });
  }

 private:
  template <class Element, class Also>
  CAUSEWAY_ALWAYS_INLINE static bool look(const Element* from, std::int64_t count, Also&& also) {
    exponent_watch<Element> watch;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      watch.see(from + i, part);
      also(i, part);
    });
    return watch.all_finite();
  }
};

/// finite_kernel by all threads: whether all of `from` are finite, and, with `to`, what they are in f32.
template <class Element, class... To>
bool look_for_finite(thread_pool& pool, simd_level level, std::int64_t count, const Element* from, To*... to) {
  std::atomic<bool> finite{true};
  for_elements(pool, count, [&](index_range r) {
    const bool good = dispatch<finite_kernel>(level, from + r.begin, (to + r.begin)..., r.size());
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

CAUSEWAY_EXACT_KERNEL((const float*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const bf16*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const f16*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const bf16*, float*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const f16*, float*, std::int64_t), finite_kernel)

#endif  // CAUSEWAY_KERNELS_FINITE_HPP

// ---- causeway/collective/sum.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SUM_HPP
#define CAUSEWAY_COLLECTIVE_SUM_HPP

// Sums of several peers' values in a fixed order, in f32, with a check for NaN and infinity on the way: one pass over
// memory. The same bits on every machine.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Block by block; a block whose sum is not finite is not stored, so that the culprit can be looked for afterwards.
struct sum_parts_kernel {
  static constexpr bool exact = true;
  static constexpr std::int64_t block = 1024;

  CAUSEWAY_ALWAYS_INLINE static bool run(std::span<const float* const> parts, float factor, float* out, std::int64_t begin,
                                         std::int64_t end) {
    bool finite = true;
    for (std::int64_t at = begin; at < end; at += block) {
      finite = add_block(parts, factor, out, at, std::min(block, end - at)) && finite;
    }
    return finite;
  }

  CAUSEWAY_ALWAYS_INLINE static bool add_block(std::span<const float* const> parts, float factor, float* out,
                                               std::int64_t at, std::int64_t count) {
    CAUSEWAY_EXACT_BODY
    alignas(64) float sums[block];
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 sum, next;
      kernels::detail::load(sum, parts[0] + at + i, part);
      for (std::size_t p = 1; p < parts.size(); ++p) {
        kernels::detail::load(next, parts[p] + at + i, part);
        sum += next;
      }
      sum *= factor;
      kernels::detail::store(sums + i, sum, part);
    });
    if (!kernels::detail::finite_kernel::run(sums, count)) return false;
    std::memcpy(out + at, sums, static_cast<std::size_t>(count) * sizeof(float));
    return true;
  }
};

}  // namespace detail

/// out[i] = factor · (parts[0][i] + parts[1][i] + ...), added from left to right in f32. `out` may be one of the parts.
/// False when a result is NaN or infinite; then a part whose own values are not finite still holds them. Bit-identical for
/// every thread count and instruction set. Reads 4 bytes an element and part, writes 4 an element.
CAUSEWAY_DECL bool sum_parts(thread_pool& pool, std::span<const float* const> parts, float factor, float* out,
                             std::int64_t count, kernels::simd_level level = kernels::detect_simd_level());

/// Whether no value is NaN or infinite.
CAUSEWAY_DECL bool finite_values(std::span<const float> values, kernels::simd_level level = kernels::detect_simd_level());

/// to = from, bit by bit, in one pass with the look for NaN and infinity; false where there are any.
CAUSEWAY_DECL bool copy_finite(thread_pool& pool, std::span<const float> from, std::span<float> to,
                               kernels::simd_level level = kernels::detect_simd_level());

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SUM_HPP

// ---- causeway/collective/impl/sum.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SUM_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SUM_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL bool sum_parts(thread_pool& pool, std::span<const float* const> parts, float factor, float* out,
                             std::int64_t count, kernels::simd_level level) {
  std::atomic<bool> finite{true};
  pool.for_range(count, 16 * detail::sum_parts_kernel::block, [&](index_range r) {
    const bool good = kernels::detail::dispatch<detail::sum_parts_kernel>(level, parts, factor, out, r.begin, r.end);
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

CAUSEWAY_DECL bool finite_values(std::span<const float> values, kernels::simd_level level) {
  return kernels::detail::dispatch<kernels::detail::finite_kernel>(level, values.data(),
                                                                   static_cast<std::int64_t>(values.size()));
}

CAUSEWAY_DECL bool copy_finite(thread_pool& pool, std::span<const float> from, std::span<float> to,
                               kernels::simd_level level) {
  return kernels::detail::look_for_finite(pool, level, static_cast<std::int64_t>(from.size()), from.data(), to.data());
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SUM_IPP
#endif

// ---- causeway/collective/aggregator.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_AGGREGATOR_HPP
#define CAUSEWAY_COLLECTIVE_AGGREGATOR_HPP

// What becomes of the messages of all peers, where one place has all of them (gather_mean). Every peer works it out for
// itself from the same bytes in the same order, and so ends with the same bits.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// What an aggregator is given.
template <class C, class X>
struct aggregation {
  const C& codec;
  const X& context;
  std::span<const peer_message> messages;  ///< in the order of the peers; those with weight > 0 that are not refused
  double total_weight;                     ///< of the messages
  float factor;                            ///< 1 / total_weight, finite, not 0
  std::uint32_t peers;                     ///< of the group
  std::span<float> out;                    ///< zeros; becomes the result
  std::span<float> counts;                 ///< zeros, or empty
  std::span<float> scratch;                ///< scratch_rows times as many values as `out`; anything
};

/// Requirements:
/// - `a.combine(aggregation)` leaves the result in `out`, as values (not coefficients), all finite; or says who is to blame
///   that there is none.
/// - `A::scratch_rows`: rows of working memory it needs. `A::counts`: it fills `counts` where there are any.
/// - `A::drops_unusable`: a message that cannot be decoded counts for nothing; without it, nobody uses the round's result.
/// - `A::changes_one`: see exchange_traits.
template <class A, class C, class X>
concept Aggregator = Copyable<A> && requires(const A& a, const aggregation<C, X>& all) {
  { A::name } -> ConvertibleTo<std::string_view>;
  { A::scratch_rows } -> ConvertibleTo<std::size_t>;
  {bool{A::counts}};
  {bool{A::drops_unusable}};
  {bool{A::changes_one}};
  { a.combine(all) } -> std::same_as<std::optional<refusal>>;
};

namespace detail {

/// out += Σ weight · decoded, in the order of the peers.
template <class C, class X>
std::optional<refusal> add_messages(const aggregation<C, X>& all, std::span<float> counts) {
  for (const peer_message& m : all.messages) {
    const auto added = all.codec.decode_add(all.context, m.bytes, all.out, m.weight, counts);
    if (added) continue;
    const errc code = added.error().code;
    const bool by_sender = code == errc::protocol || code == errc::corrupt || code == errc::non_finite;
    return refusal{by_sender ? m.peer : all.peers, code};
  }
  return std::nullopt;
}

/// Multiplies by `factor`; false when something is not finite.
CAUSEWAY_DECL bool scale_finite(thread_pool& pool, std::span<float> values, float factor);

/// out = weight · values, and zeros for a weight of 0, whatever the values; false when something is not finite.
CAUSEWAY_DECL bool weighted(thread_pool& pool, std::span<const float> values, float weight, std::span<float> out);

void for_values(thread_pool& pool, std::size_t count, auto&& f) {
  pool.for_range(static_cast<std::int64_t>(count), 1 << 14, [&](index_range r) {
    for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) f(i);
  });
}

/// out = factor · out, or of out / counts where there are counts above 0: the means of sums.
template <class C, class X>
std::optional<refusal> divide(const aggregation<C, X>& all, std::span<const float> counts, float factor) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(all.codec, all.out, counts)) {
      const auto done = row_codec(all.codec).divide(all.out, counts, factor);
      return done ? std::nullopt : std::optional{refusal{all.peers, done.error().code}};
    }
  }
  thread_pool& pool = all.context.pool;
  if (!counts.empty()) {
    for_values(pool, all.out.size(), [&](std::size_t i) {
      if (counts[i] > 0) all.out[i] /= counts[i];
    });
  }
  if (!scale_finite(pool, all.out, factor)) return refusal{all.peers, errc::non_finite};
  return std::nullopt;
}

template <class C, class X>
void to_signs(const aggregation<C, X>& all) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(all.codec, all.out)) return row_codec(all.codec).to_signs(all.out);
  }
  for_values(all.context.pool, all.out.size(), [&](std::size_t i) {
    const float x = all.out[i];
    all.out[i] = x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F;
  });
}

}  // namespace detail

/// Σ w_i x_i / Σ w_i. Where a sparse message leaves a coordinate out, it says 0.
struct mean {
  static constexpr std::string_view name = "mean";
  static constexpr std::size_t scratch_rows = 0;
  static constexpr bool counts = true;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    if (auto bad = detail::add_messages(all, all.counts)) return bad;
    if (auto bad = detail::divide(all, {}, all.factor)) return bad;
    detail::invert(all.codec, all.context, all.out);
    return std::nullopt;
  }
};

/// The mean times the number of messages: Σ x_i where weights are equal. For updates that all peers apply (Gaia).
struct sum : mean {
  static constexpr std::string_view name = "sum";

  template <class C, class X>
  std::optional<refusal> combine(aggregation<C, X> all) const {
    all.factor *= static_cast<float>(all.messages.size());
    return mean::combine(all);
  }
};

/// Each coordinate divided by the weights of those who sent it: Σ w_i x_i / Σ (w_i of the messages that have it); 0 where
/// nobody has it. The mean of DeMo's reference implementation. For a dense codec it is `mean`, but for rounding.
struct contributor_mean {
  static constexpr std::string_view name = "contributor_mean";
  static constexpr std::size_t scratch_rows = 1;
  static constexpr bool counts = true;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  bool over_all = false;  ///< it is `mean` after all: for presets that have both

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    if (over_all) return mean{}.combine(all);
    std::span<float> counts_here = all.counts;
    if (counts_here.empty()) {
      counts_here = all.scratch;
      detail::clear(all.codec, all.context.pool, counts_here);
    }
    if (auto bad = detail::add_messages(all, counts_here)) return bad;
    if (auto bad = detail::divide(all, counts_here, 1.0F)) return bad;
    detail::invert(all.codec, all.context, all.out);
    return std::nullopt;
  }
};

namespace detail {

/// An aggregator that does something more to what `Base` gives.
template <class Base>
struct after {
  static constexpr std::size_t scratch_rows = Base::scratch_rows;
  static constexpr bool counts = Base::counts;
  static constexpr bool drops_unusable = Base::drops_unusable;
  static constexpr bool changes_one = Base::changes_one;

  [[no_unique_address]] Base base{};
};

}  // namespace detail

/// The sign of what `Base` gives: -1, 0 or 1. With `contributor_mean` the aggregation of DeMo; with 1-bit messages the
/// majority vote of signSGD (Bernstein et al. 2018).
template <class Base = mean>
struct sign_of : detail::after<Base> {
  static constexpr std::string_view name = "sign_of";
  static constexpr bool changes_one = true;

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    if (auto bad = this->base.combine(all)) return bad;
    detail::to_signs(all);
    return std::nullopt;
  }
};
using sign_of_mean = sign_of<mean>;

/// What `Base` gives, encoded once more and decoded: the values that peers would have if each had reduced a part and sent
/// it on with the same codec (MuLoCo's authors quantise again after the reduce). For codecs whose messages have all values.
/// What the second encoding loses, no error feedback has. Memory: a message.
template <class Base = mean>
struct recoded : detail::after<Base> {
  static constexpr std::string_view name = "recoded";

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    static_assert(!C::traits.sparse && !C::traits.transform, "recoded: a message that leaves values out would lose them");
    if (auto bad = this->base.combine(all)) return bad;
    std::vector<std::byte> bytes(all.codec.most_bytes(all.context, all.out.size()));
    bytes.resize(all.codec.encode(all.context, all.out, bytes));
    detail::clear(all.codec, all.context.pool, all.out);
    const auto added = all.codec.decode_add(all.context, bytes, all.out, 1.0F, {});
    return added ? std::nullopt : std::optional{refusal{all.peers, added.error().code}};
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_AGGREGATOR_HPP

// ---- causeway/collective/impl/aggregator.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_AGGREGATOR_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_AGGREGATOR_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL bool scale_finite(thread_pool& pool, std::span<float> values, float factor) {
  const float* const whole[] = {values.data()};
  return sum_parts(pool, whole, factor, values.data(), static_cast<std::int64_t>(values.size()));
}

CAUSEWAY_DECL bool weighted(thread_pool& pool, std::span<const float> values, float weight, std::span<float> out) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (weight == 0) {
    kernels::zero(pool, out.data(), count);
    return true;
  }
  const float* const only[] = {values.data()};
  return sum_parts(pool, only, weight, out.data(), count);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_AGGREGATOR_IPP
#endif

// ---- causeway/collective/encoding.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_ENCODING_HPP
#define CAUSEWAY_COLLECTIVE_ENCODING_HPP

// What a collective needs of a codec. Every compress::Codec is one; the codecs themselves live elsewhere, since a
// collective does not care how a float becomes fewer bytes.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// - `C::raw`: the encoded bytes are the floats themselves, so that they may be sent from where they lie;
/// - `block()`: cutting values at multiples of it does not change what they decode to;
/// - `encoded_size(n)`: exact bytes of n encoded values; `encode` and `decode` must produce and accept just that many.
template <class C>
concept Encoding = requires(const C& c, thread_pool& pool, std::size_t n, std::span<const float> values,
                            std::span<std::byte> room, std::span<const std::byte> bytes, std::span<float> decoded) {
  {bool{C::raw}};
  { c.block() } -> std::same_as<std::size_t>;
  { c.encoded_size(n) } -> std::same_as<std::size_t>;
  { c.encode(pool, values, room) } -> std::same_as<std::size_t>;
  { c.decode(pool, bytes, decoded) } -> std::same_as<result<void>>;
};

/// Floats as they are. For the plain sums: nothing is ever encoded.
struct raw_encoding {
  static constexpr bool raw = true;
  static constexpr std::size_t block() noexcept { return 1; }
  static constexpr std::size_t encoded_size(std::size_t n) noexcept { return n * sizeof(float); }
  static std::size_t encode(thread_pool&, std::span<const float>, std::span<std::byte>) noexcept { return 0; }
  static result<void> decode(thread_pool&, std::span<const std::byte>, std::span<float>) { return {}; }
};
static_assert(Encoding<raw_encoding>);

/// Whether finite values are still finite once they were encoded: some are too large for 16 bits. Cost: as a round trip.
template <Encoding C>
bool survives(const C& codec, thread_pool& pool, std::span<const float> values) {
  if constexpr (C::raw) {
    return true;
  } else {
    std::vector<std::byte> bytes(codec.encoded_size(values.size()));
    std::vector<float> back(values.size());
    bytes.resize(codec.encode(pool, values, bytes));
    return codec.decode(pool, bytes, back).has_value();
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_ENCODING_HPP

// ---- causeway/collective/flight.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_FLIGHT_HPP
#define CAUSEWAY_COLLECTIVE_FLIGHT_HPP

// The sends and receives that one collective has under way. Buffers belong to the caller, so a collective must not return
// while the transport still reads or writes them: whatever is under way when this object goes, is cancelled.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

inline std::string peer_name(net::peer_index peer) { return "peer " + std::to_string(peer); }

/// Which message of a collective.
struct part {
  std::uint32_t phase = 0;  ///< below channel_stride
  std::size_t chunk = 0;
};

namespace detail {

CAUSEWAY_DECL net::message_id id_of(net::message_id id, const part& what);

/// An error says which peer was waited for.
CAUSEWAY_DECL result<std::size_t> naming(net::peer_index peer, result<std::size_t> moved);

CAUSEWAY_DECL result<void> without_size(result<std::size_t> moved);

}  // namespace detail

/// Numbered places, each empty or holding one operation of a collective on `id`. What the message is, its phase and the
/// number of its chunk, becomes part of its channel.
template <net::Transport T>
class flight {
 public:
  flight(T& transport, const net::message_id& id, time_point deadline, std::vector<net::scoped_operation>& places,
         std::size_t count)
      : transport_{transport}, id_{id}, deadline_{deadline}, places_{places} {
    places_.clear();
    places_.resize(count);
  }
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;
  ~flight() { places_.clear(); }

  [[nodiscard]] net::peer_index self() const { return transport_.self(); }
  [[nodiscard]] std::uint32_t size() const { return transport_.size(); }

  void send(std::size_t place, net::peer_index to, const part& what, std::span<const std::byte> bytes) {
    CAUSEWAY_EXPECT(!places_[place].started());
    places_[place] = {transport_, transport_.send(to, detail::id_of(id_, what), bytes)};
  }

  void receive(std::size_t place, net::peer_index from, const part& what, std::span<std::byte> buffer) {
    CAUSEWAY_EXPECT(!places_[place].started());
    places_[place] = {transport_, transport_.receive(from, detail::id_of(id_, what), buffer)};
  }

  /// One more place than the constructor was asked for.
  std::size_t add_place() {
    places_.emplace_back();
    return places_.size() - 1;
  }

  /// Bytes moved by the operation in `place`; 0 where there is none. An error names the peer.
  result<std::size_t> wait(std::size_t place, net::peer_index peer) {
    return detail::naming(peer, places_[place].wait(deadline_));
  }

  /// As wait, for a send.
  result<void> finish(std::size_t place, net::peer_index peer) { return detail::without_size(wait(place, peer)); }

  /// As wait, for a message whose length is known.
  result<void> wait_exact(std::size_t place, net::peer_index peer, std::size_t bytes) {
    CAUSEWAY_ASSIGN(const std::size_t moved, wait(place, peer));
    if (moved != bytes) {
      return fail(errc::protocol, peer_name(peer),
                  "it sent " + std::to_string(moved) + " bytes where " + std::to_string(bytes) +
                      " belong; do all peers run the same model, options and version?");
    }
    return {};
  }

 private:
  T& transport_;
  net::message_id id_;
  time_point deadline_;
  std::vector<net::scoped_operation>& places_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_FLIGHT_HPP

// ---- causeway/collective/impl/flight.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_FLIGHT_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_FLIGHT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL net::message_id id_of(net::message_id id, const part& what) {
  id.channel = numbered(id.channel + what.phase, what.chunk);
  return id;
}

CAUSEWAY_DECL result<std::size_t> naming(net::peer_index peer, result<std::size_t> moved) {
  if (!moved && moved.error().where.empty()) moved.error().where = peer_name(peer);
  return moved;
}

CAUSEWAY_DECL result<void> without_size(result<std::size_t> moved) {
  if (!moved) return std::move(moved).error();
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_FLIGHT_IPP
#endif

// ---- causeway/collective/butterfly.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_BUTTERFLY_HPP
#define CAUSEWAY_COLLECTIVE_BUTTERFLY_HPP

// Reduce-scatter by direct exchange, then all-gather. Each peer owns one n-th of the values: it receives that part from
// everybody, adds the parts in the order of the peers, and sends the result to everybody. Both phases are cut into chunks
// that follow each other through three stages (scatter, reduce, adopt), so that sums overlap transfers. With an encoding,
// every contribution is encoded exactly once, the reduced part is encoded once, and everybody, the owner too, adopts the
// decoded bytes: replicas stay bit-identical.

#include <list>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// One sum over all peers, times `factor`, in place. Lives for one call of run().
template <net::Transport T, Encoding C>
class butterfly {
 public:
  butterfly(T& transport, const net::message_id& id, std::span<float> data, const C& codec, float factor,
            const collective_options& options, collective_workspace& workspace)
      : data_{data},
        codec_{codec},
        factor_{factor},
        pool_{options.pool != nullptr ? *options.pool : workspace.alone()},
        self_{transport.self()},
        peers_{transport.size()},
        checks_results_{options.checks_results},
        chunk_{chunk_elements(largest_shard(), options.chunk_bytes)},
        chunks_{(largest_shard() + chunk_ - 1) / chunk_},
        window_{static_cast<std::uint32_t>(std::clamp<std::size_t>(options.window, 1, std::max<std::size_t>(chunks_, 1)))},
        depth_{2 * std::size_t{window_} + 1},
        slot_{(codec.encoded_size(chunk_) + 63) / 64 * 64},
        memory_{workspace.reserve(memory_size())},
        sizes_{workspace.sizes()},
        parts_{workspace.parts()},
        flight_{transport, id, options.deadline, workspace.operations(), kinds * depth_ * peers_} {}

  result<void> run() {
    for (std::size_t k = 0; k < std::min<std::size_t>(window_, chunks_); ++k) expect_parts(k);
    for (std::size_t step = 0; step < chunks_ + 2 * window_; ++step) {
      if (step + window_ < chunks_) expect_parts(step + window_);
      if (step < chunks_) scatter(step);
      if (step >= window_ && step - window_ < chunks_) CAUSEWAY_TRY(reduce(step - window_));
      if (step >= 2 * window_) CAUSEWAY_TRY(adopt(step - 2 * window_));
    }
    for (const auto& [at, peer] : verdict_places_) CAUSEWAY_TRY(flight_.finish(at, peer));
    if (refusal_) return to_error(*refusal_, peers_);
    return {};
  }

 private:
  enum kind : std::size_t { sent_part, received_part, sent_result, received_result, kinds };
  enum phase : std::uint32_t { parts = 0, results = 1, verdicts = 2 };

  // --- what belongs to whom -------------------------------------------------------------------------------------------

  [[nodiscard]] index_range shard(net::peer_index owner) const {
    return share_of(static_cast<std::int64_t>(data_.size()), owner, peers_, static_cast<std::int64_t>(codec_.block()));
  }
  [[nodiscard]] std::size_t largest_shard() const {
    std::int64_t largest = 0;
    for (net::peer_index p = 0; p < peers_; ++p) largest = std::max(largest, shard(p).size());
    return static_cast<std::size_t>(largest);
  }
  /// No more than a shard has: every peer gets slots for chunks of all others, so of many peers a bigger one would cost
  /// each as much memory as all of them hold values.
  [[nodiscard]] std::size_t chunk_elements(std::size_t count, std::size_t chunk_bytes) const {
    const std::size_t block = codec_.block();
    const std::size_t wanted = std::min(chunk_bytes / sizeof(float), count);
    return std::max((wanted + block - 1) / block, std::size_t{1}) * block;
  }
  /// Chunk `k` of the values that `owner` reduces; empty where its shard has no such chunk.
  [[nodiscard]] std::span<float> piece(net::peer_index owner, std::size_t k) const {
    const index_range range = shard(owner);
    const std::size_t size = static_cast<std::size_t>(range.size());
    const std::size_t first = std::min(k * chunk_, size);
    return data_.subspan(static_cast<std::size_t>(range.begin) + first, std::min(chunk_, size - first));
  }

  // --- working memory: places of operations, slots of bytes -----------------------------------------------------------

  [[nodiscard]] std::size_t place(kind what, std::size_t k, net::peer_index p) const {
    return (k % depth_ * kinds + what) * peers_ + p;
  }
  // Raw floats are sent from and received into the caller's memory; only the parts to be summed need slots.
  static constexpr std::size_t slot_kinds = C::raw ? 1 : 3;
  static constexpr std::size_t slot_kind(kind what) {
    if (C::raw || what == sent_part) return 0;
    return what == received_part ? 1 : 2;  // the results: the peer's own one is sent, the others received
  }
  [[nodiscard]] std::size_t memory_size() const {
    return slot_kinds * depth_ * peers_ * slot_ + (C::raw ? 0 : 2 * (chunk_ * sizeof(float) + 64));
  }
  [[nodiscard]] std::span<std::byte> slot(kind what, std::size_t k, net::peer_index p) const {
    return {memory_ + ((k % depth_ * slot_kinds + slot_kind(what)) * peers_ + p) * slot_, slot_};
  }
  [[nodiscard]] float* sums(std::size_t which) const {
    const std::size_t start = slot_kinds * depth_ * peers_ * slot_;
    return reinterpret_cast<float*>(memory_ + start + which * ((chunk_ * sizeof(float) + 63) / 64 * 64));
  }
  /// Others in an order that starts behind this peer, so that not everybody talks to peer 0 first.
  [[nodiscard]] net::peer_index other(std::uint32_t i) const { return (self_ + i) % peers_; }

  // --- stages -----------------------------------------------------------------------------------------------------------

  /// Asks for everybody's part of a chunk of the own shard. `window_` chunks ahead of the parts that this peer sends:
  /// nobody can be further ahead than that, so nothing arrives that was not asked for.
  void expect_parts(std::size_t k) {
    const std::span<float> mine = piece(self_, k);
    for (std::uint32_t i = 1; i < peers_ && !mine.empty(); ++i) {
      const net::peer_index p = other(peers_ - i);
      flight_.receive(place(received_part, k, p), p, part{parts, k}, slot(received_part, k, p).first(size_of(mine)));
    }
  }

  /// Sends everybody's part of chunk `k`, and asks for the results. A raw result arrives where the part was sent from:
  /// its owner cannot know it before it has the whole part, so it never overtakes what it replaces.
  void scatter(std::size_t k) {
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index p = other(i);
      const std::span<float> theirs = piece(p, k);
      if (theirs.empty()) continue;
      expect_result(k, p);
      flight_.send(place(sent_part, k, p), p, part{parts, k}, encoded(theirs, slot(sent_part, k, p)));
    }
  }

  std::span<const std::byte> encoded(std::span<const float> values, std::span<std::byte> room) {
    if constexpr (C::raw) return std::as_bytes(values);
    return room.first(codec_.encode(pool_, values, room));
  }
  [[nodiscard]] std::size_t size_of(std::span<const float> values) const { return codec_.encoded_size(values.size()); }

  void expect_result(std::size_t k, net::peer_index owner) {
    const std::span<float> target = piece(owner, k);
    std::span<std::byte> room = std::as_writable_bytes(target);
    if constexpr (!C::raw) room = slot(received_result, k, owner).first(size_of(target));
    flight_.receive(place(received_result, k, owner), owner, part{results, k}, room);
  }

  /// Adds everybody's parts of the own chunk and sends the result to everybody.
  result<void> reduce(std::size_t k) {
    CAUSEWAY_TRY(finish_sends(sent_part, k));
    const std::span<float> mine = piece(self_, k);
    if (mine.empty()) return {};
    sizes_.assign(peers_, size_of(mine));
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (p == self_) continue;
      CAUSEWAY_ASSIGN(sizes_[p], flight_.wait(place(received_part, k, p), p));
    }
    const std::optional<refusal> bad = C::raw ? reduce_raw(k, mine) : reduce_encoded(k, mine);
    if (bad) {
      note(refusal_, *bad);
      verdicts_.push_back(to_bytes(*bad));
    }
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index p = other(i);
      if (bad) {
        send_verdict(k, p);
      } else {
        flight_.send(place(sent_result, k, p), p, part{results, k}, result_bytes(k, mine));
      }
    }
    return {};
  }

  std::span<const std::byte> result_bytes(std::size_t k, std::span<const float> mine) const {
    if constexpr (C::raw) return std::as_bytes(mine);
    return slot(received_result, k, self_).first(size_of(mine));
  }

  void send_verdict(std::size_t k, net::peer_index p) {
    flight_.send(place(sent_result, k, p), p, part{results, k}, {});  // an empty result: a verdict follows
    verdict_places_.emplace_back(flight_.add_place(), p);
    flight_.send(verdict_places_.back().first, p, part{verdicts, k}, verdicts_.back());
  }

  std::optional<refusal> reduce_raw(std::size_t k, std::span<float> mine) {
    parts_.resize(peers_);
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (sizes_[p] != mine.size_bytes()) return refusal{p, errc::protocol};
      parts_[p] = p == self_ ? mine.data() : reinterpret_cast<const float*>(slot(received_part, k, p).data());
    }
    if (sum_parts(pool_, parts_, factor_, mine.data(), static_cast<std::int64_t>(mine.size()))) return std::nullopt;
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (!finite_values({parts_[p], mine.size()})) return refusal{p, errc::non_finite};
    }
    return refusal{peers_, errc::non_finite};
  }

  std::optional<refusal> reduce_encoded(std::size_t k, std::span<float> mine) {
    const std::span<float> sum{sums(0), mine.size()};
    (void)codec_.encode(pool_, mine, slot(received_part, k, self_));  // its own contribution takes the same way
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (auto bad = add_encoded(p, slot(received_part, k, p).first(sizes_[p]), sum)) return bad;
    }
    const float* const whole[] = {sum.data()};
    if (!sum_parts(pool_, whole, factor_, sum.data(), static_cast<std::int64_t>(sum.size()))) {
      return refusal{peers_, errc::non_finite};
    }
    const auto room = slot(received_result, k, self_);
    const std::size_t bytes = codec_.encode(pool_, sum, room);
    if (!codec_.decode(pool_, room.first(bytes), mine)) return refusal{peers_, errc::non_finite};
    return std::nullopt;
  }

  /// sum = or += what peer p's bytes decode to, in one pass where the codec can. An addition that overflows leaves what is
  /// not finite, for the last look to find.
  std::optional<refusal> add_encoded(net::peer_index p, std::span<const std::byte> bytes, std::span<float> sum) {
    constexpr bool adds = requires { codec_.decode_add(pool_, bytes, sum, 1.0F); };
    const std::span<float> next{sums(1), sum.size()};
    auto decoded = [&]() -> result<void> {
      if (p == 0) return codec_.decode(pool_, bytes, sum);
      if constexpr (adds) return codec_.decode_add(pool_, bytes, sum, 1.0F);
      return codec_.decode(pool_, bytes, next);
    }();
    if (!decoded) return refusal{p, decoded.error().code};
    if (p == 0 || adds) return std::nullopt;
    const float* const both[] = {sum.data(), next.data()};
    if (sum_parts(pool_, both, 1.0F, sum.data(), static_cast<std::int64_t>(sum.size()))) return std::nullopt;
    return refusal{peers_, errc::non_finite};
  }

  /// Takes everybody's results for their chunks. Then nothing of this chunk is under way any more.
  result<void> adopt(std::size_t k) {
    CAUSEWAY_TRY(finish_sends(sent_result, k));
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (p == self_) continue;
      const std::span<float> target = piece(p, k);
      CAUSEWAY_ASSIGN(const std::size_t moved, flight_.wait(place(received_result, k, p), p));
      if (!target.empty()) CAUSEWAY_TRY(accept(k, p, target, moved));
    }
    return {};
  }

  /// Before waiting for what others make of the sends: one that failed would never be answered.
  result<void> finish_sends(kind what, std::size_t k) {
    for (std::uint32_t i = 1; i < peers_; ++i) CAUSEWAY_TRY(flight_.finish(place(what, k, other(i)), other(i)));
    return {};
  }

  result<void> accept(std::size_t k, net::peer_index owner, std::span<float> target, std::size_t moved) {
    if (moved == 0) return take_verdict(k, owner);
    if constexpr (C::raw) {
      if (moved != target.size_bytes()) note(refusal_, {owner, errc::protocol});
      if (checks_results_ && !finite_values(target)) note(refusal_, {owner, errc::non_finite});
    } else {
      const auto decoded = codec_.decode(pool_, slot(received_result, k, owner).first(moved), target);
      if (!decoded) note(refusal_, {owner, decoded.error().code});
    }
    return {};
  }

  result<void> take_verdict(std::size_t k, net::peer_index owner) {
    refusal_bytes bytes;
    const std::size_t at = flight_.add_place();
    flight_.receive(at, owner, part{verdicts, k}, bytes);
    CAUSEWAY_ASSIGN(const std::size_t moved, flight_.wait(at, owner));
    auto claimed = from_bytes(std::span{bytes}.first(moved), peers_).value_or(refusal{owner, errc::protocol});
    if (claimed.peer == self_) claimed.told = false;  // whose values they are can look
    note(refusal_, claimed);
    return {};
  }

  std::span<float> data_;
  const C& codec_;
  float factor_;
  thread_pool& pool_;
  net::peer_index self_;
  std::uint32_t peers_;
  bool checks_results_;
  std::size_t chunk_;
  std::size_t chunks_;
  std::uint32_t window_;
  std::size_t depth_;
  std::size_t slot_;
  std::byte* memory_;
  std::optional<refusal> refusal_;
  std::list<refusal_bytes> verdicts_;  // a list: verdicts under way must not move
  std::vector<std::pair<std::size_t, net::peer_index>> verdict_places_;
  std::vector<std::size_t>& sizes_;
  std::vector<const float*>& parts_;
  flight<T> flight_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_BUTTERFLY_HPP

// ---- causeway/collective/ring.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_RING_HPP
#define CAUSEWAY_COLLECTIVE_RING_HPP

// All-reduce around a ring (Patarasuk and Yuan, 2009). Segment s starts at peer s and collects one contribution per hop,
// so it is added in the order s, s+1, ..., s-1; then the sums go round once more. Segments are cut into chunks, and a chunk
// is passed on as soon as it is summed, so that the sum of one overlaps the transfer of the next.

#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// One sum over all peers, times `factor`, in place. Lives for one call of run().
template <net::Transport T>
class ring {
 public:
  ring(T& transport, const net::message_id& id, std::span<float> data, float factor, const collective_options& options,
       collective_workspace& workspace)
      : data_{data},
        factor_{factor},
        pool_{options.pool != nullptr ? *options.pool : workspace.alone()},
        self_{transport.self()},
        peers_{transport.size()},
        chunk_{std::max(std::min(options.chunk_bytes / sizeof(float), data.size()), std::size_t{1})},
        chunks_{((data.size() + peers_ - 1) / peers_ + chunk_ - 1) / chunk_},
        window_{std::max(std::size_t{options.window}, chunks_)},  // the left peer starts with a whole segment
        reduce_items_{(peers_ - 1) * chunks_},
        memory_{workspace.reserve(window_ * slot_bytes())},
        flight_{transport, id, options.deadline, workspace.operations(), 4 * reduce_items_} {}

  /// Item i of 2 (n-1) chunks_ is chunk i % chunks_ of round i / chunks_: in round t this peer sends segment self - t and
  /// receives segment self - t - 1.
  result<void> run() {
    const bool own_finite = finite_values(data_);
    const std::size_t items = 2 * reduce_items_;
    for (std::size_t i = 0; i < std::min(window_, items); ++i) expect(i);
    for (std::size_t i = 0; i < std::min(chunks_, items); ++i) pass_on(i);
    for (std::size_t i = 0; i < items; ++i) {
      // A finished sum never comes round if the part that this peer sent for it failed: look at that first.
      if (i >= reduce_items_) CAUSEWAY_TRY(flight_.finish(i - reduce_items_, right()));
      CAUSEWAY_TRY(flight_.wait_exact(items + i, left(), outgoing(i + chunks_).size_bytes()));
      if (i < reduce_items_) add(i);
      if (i + chunks_ < items) pass_on(i + chunks_);
      if (i + window_ < items) expect(i + window_);
    }
    for (std::size_t i = 0; i < items; ++i) CAUSEWAY_TRY(flight_.finish(i, right()));
    if (finite_values(data_)) return {};
    return not_finite(own_finite);
  }

 private:
  [[nodiscard]] net::peer_index right() const { return (self_ + 1) % peers_; }
  [[nodiscard]] net::peer_index left() const { return (self_ + peers_ - 1) % peers_; }
  [[nodiscard]] std::size_t slot_bytes() const { return (chunk_ * sizeof(float) + 63) / 64 * 64; }

  /// What item i sends; item i + chunks_ sends what item i received.
  [[nodiscard]] std::span<float> outgoing(std::size_t i) const {
    const std::size_t round = i / chunks_ % peers_;
    const auto segment = static_cast<unsigned>((self_ + peers_ - round) % peers_);
    const index_range range = share_of(static_cast<std::int64_t>(data_.size()), segment, peers_);
    const auto size = static_cast<std::size_t>(range.size());
    const std::size_t first = std::min(i % chunks_ * chunk_, size);
    return data_.subspan(static_cast<std::size_t>(range.begin) + first, std::min(chunk_, size - first));
  }

  [[nodiscard]] std::span<std::byte> slot(std::size_t i) const {
    return {memory_ + i % window_ * slot_bytes(), outgoing(i + chunks_).size_bytes()};
  }

  void pass_on(std::size_t i) { flight_.send(i, right(), part{0, i}, std::as_bytes(outgoing(i))); }

  /// Partial sums go to a slot. A finished sum goes where it belongs: it holds what this peer sent from there, so that has
  /// left before it arrives.
  void expect(std::size_t i) {
    const std::span<std::byte> room = i < reduce_items_ ? slot(i) : std::as_writable_bytes(outgoing(i + chunks_));
    flight_.receive(2 * reduce_items_ + i, left(), part{0, i}, room);
  }

  void add(std::size_t i) {
    const std::span<float> mine = outgoing(i + chunks_);
    const float* const both[] = {reinterpret_cast<const float*>(slot(i).data()), mine.data()};
    const bool complete = i >= reduce_items_ - chunks_;
    const float factor = complete ? factor_ : 1.0F;
    const bool finite = sum_parts(pool_, both, factor, mine.data(), static_cast<std::int64_t>(mine.size()));
    if (!finite) mine.front() = std::numeric_limits<float>::quiet_NaN();  // goes round, so that all peers see it
  }

  [[nodiscard]] error not_finite(bool own_finite) const {
    if (!own_finite) return to_error({self_, errc::non_finite}, peers_);
    return fail(
        errc::non_finite, "all-reduce",
        "a peer's values hold NaN or infinity, or their sum is too large for f32; the peer itself says so in its log");
  }

  std::span<float> data_;
  float factor_;
  thread_pool& pool_;
  net::peer_index self_;
  std::uint32_t peers_;
  std::size_t chunk_;
  std::size_t chunks_;
  std::size_t window_;
  std::size_t reduce_items_;
  std::byte* memory_;
  flight<T> flight_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_RING_HPP

// ---- causeway/collective/all_reduce.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP
#define CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP

// Sums and means over all peers. Whatever the algorithm, every peer ends with the same bits, and those depend on the order
// of the peers and on nothing else: not on arrival times, thread counts or instruction sets. A transport that adds up by
// means of its own has an order of its own, too. After an error the values are unspecified: keep a copy where the step can
// be repeated.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Everybody sends everything to everybody, and adds for itself.
template <net::Transport T>
result<void> one_shot(T& transport, const net::message_id& id, std::span<float> data, float factor,
                      const collective_options& options, collective_workspace& workspace) {
  const net::peer_index self = transport.self();
  const std::uint32_t peers = transport.size();
  const std::size_t slot = (data.size_bytes() + 63) / 64 * 64;
  std::byte* const memory = workspace.reserve(slot * peers);
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 2 * std::size_t{peers}};
  for (std::uint32_t i = 1; i < peers; ++i) {
    const net::peer_index from = (self + peers - i) % peers;
    ops.receive(from, from, part{}, {memory + from * slot, data.size_bytes()});
  }
  for (std::uint32_t i = 1; i < peers; ++i) {
    const net::peer_index to = (self + i) % peers;
    ops.send(peers + to, to, part{}, std::as_bytes(data));
  }
  std::optional<refusal> bad;
  auto& parts = workspace.parts();
  parts.assign(peers, data.data());
  for (net::peer_index p = 0; p < peers; ++p) {
    if (p != self) {
      CAUSEWAY_ASSIGN(const std::size_t moved, ops.wait(p, p));
      if (moved != data.size_bytes()) note(bad, {p, errc::protocol});
      parts[p] = reinterpret_cast<const float*>(memory + p * slot);
    }
    if (!finite_values({parts[p], data.size()})) note(bad, {p, errc::non_finite});
  }
  for (net::peer_index p = 0; p < peers; ++p) CAUSEWAY_TRY(ops.finish(peers + p, p));  // then `data` may change
  if (bad) return to_error(*bad, peers);
  thread_pool& pool = options.pool != nullptr ? *options.pool : workspace.alone();
  if (sum_parts(pool, parts, factor, data.data(), static_cast<std::int64_t>(data.size()))) return {};
  return to_error({peers, errc::non_finite}, peers);
}

/// By means of the transport's own. All see whether the sum is finite, and nobody whose value was not.
result<void> own_sum(net::SumsItself auto& transport, std::span<float> data, float factor,
                     const collective_options& options, collective_workspace& workspace) {
  if (auto summed = transport.wait(transport.sum(data), options.deadline); !summed) return summed.error();
  if (!finite_values(data)) return to_error({transport.size(), errc::non_finite}, transport.size());
  thread_pool& pool = options.pool != nullptr ? *options.pool : workspace.alone();
  if (factor != 1.0F) kernels::scale(pool, data.data(), factor, static_cast<std::int64_t>(data.size()));
  return {};
}

template <net::Transport T>
result<void> all_reduce(T& transport, const net::message_id& id, std::span<float> data, float factor,
                        const collective_options& options) {
  if (data.empty()) return {};
  if (transport.size() == 1) {
    if (finite_values(data)) return {};
    return to_error({0, errc::non_finite}, 1);
  }
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  algorithm how = options.how;
  if constexpr (net::SumsItself<T>) {
    if (how == algorithm::automatic && transport.sums()) return own_sum(transport, data, factor, options, workspace);
  }
  if (how == algorithm::automatic) {
    const bool little = data.size_bytes() <= options.one_shot_bytes;
    const bool few = data.size_bytes() * transport.size() <= 16 * options.one_shot_bytes;
    how = little && few ? algorithm::one_shot : algorithm::butterfly;
  }
  if (how == algorithm::one_shot) return one_shot(transport, id, data, factor, options, workspace);
  if (how == algorithm::ring) return ring<T>{transport, id, data, factor, options, workspace}.run();
  return butterfly<T, raw_encoding>{transport, id, data, raw_encoding{}, factor, options, workspace}.run();
}

}  // namespace detail

/// data[i] = sum over all peers of their data[i], in f32, in place. Every peer calls it with the same `id`, as many values
/// and the same options. Payload bytes sent by a peer: 2 (n-1)/n of the size (one_shot: n-1 times the size); latencies: see
/// `algorithm`. Allocates nothing when given a workspace that has seen the size before.
///
/// errc::timeout, errc::peer_lost and errc::wrong_parent name the peer that was waited for. errc::non_finite names a peer
/// whose values hold NaN or infinity, and is given by all peers alike (in a ring the culprit alone is told its name).
result<void> all_reduce_sum(net::Transport auto& transport, const net::message_id& id, std::span<float> data,
                            const collective_options& options = {}) {
  return detail::all_reduce(transport, id, data, 1.0F, options);
}

/// As all_reduce_sum, then times 1/n (as f32), before the sums are sent round.
result<void> all_reduce_mean(net::Transport auto& transport, const net::message_id& id, std::span<float> data,
                             const collective_options& options = {}) {
  return detail::all_reduce(transport, id, data, 1.0F / static_cast<float>(transport.size()), options);
}

/// The mean of what all peers' values decode to, in place, with encoded bytes on the wire: 2 (n-1)/n · size · ratio of them
/// a peer. Nothing is encoded twice on its way: a contribution once, by the peer that makes it; each part's mean once, by
/// the peer that owns it. Everybody, the owner too, ends with the decoded mean: the same bits everywhere.
///
/// For a codec C that loses something, what this peer contributed is decode(encode(data)), encoded from the start of `data`
/// in blocks of codec.block(): a caller that feeds the loss back computes it from that. Errors: as all_reduce_sum; also
/// errc::corrupt, with the peer whose bytes do not decode, given by all peers alike.
template <net::Transport T, Encoding C>
result<void> exchange_mean(T& transport, const net::message_id& id, const C& codec, std::span<float> data,
                           const collective_options& options = {}) {
  if constexpr (C::raw) {
    return all_reduce_mean(transport, id, data, options);
  } else {
    if (data.empty()) return {};
    collective_workspace own;
    collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
    const float factor = 1.0F / static_cast<float>(transport.size());
    return butterfly<T, C>{transport, id, data, codec, factor, options, workspace}.run();
  }
}

#ifdef CAUSEWAY_COMPILED
extern template result<void> detail::all_reduce(net::any_transport&, const net::message_id&, std::span<float>, float,
                                                const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP

// ---- causeway/collective/impl/all_reduce.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_ALL_REDUCE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_ALL_REDUCE_IPP

// What collective/all_reduce.hpp is in every trainer.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

#ifdef CAUSEWAY_COMPILED
template result<void> detail::all_reduce(net::any_transport&, const net::message_id&, std::span<float>, float,
                                         const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_ALL_REDUCE_IPP
#endif

// ---- causeway/collective/barrier.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_BARRIER_HPP
#define CAUSEWAY_COLLECTIVE_BARRIER_HPP

// Nobody leaves before everybody has come.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Dissemination barrier (Hensgen, Finkel and Manber, 1988): ceil(log2 n) empty messages a peer, as many latencies.
template <net::Transport T>
result<void> barrier(T& transport, const net::message_id& id, const collective_options& options = {}) {
  const net::peer_index self = transport.self();
  const std::uint32_t peers = transport.size();
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 2};
  for (std::uint32_t distance = 1; distance < peers; distance *= 2) {
    const net::peer_index to = (self + distance) % peers;
    const net::peer_index from = (self + peers - distance) % peers;
    ops.receive(0, from, part{}, {});
    ops.send(1, to, part{}, {});
    CAUSEWAY_TRY(ops.finish(0, from));
    CAUSEWAY_TRY(ops.finish(1, to));
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_BARRIER_HPP

// ---- causeway/collective/broadcast.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_BROADCAST_HPP
#define CAUSEWAY_COLLECTIVE_BROADCAST_HPP

// One peer's bytes to all others.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// The root sends to everybody: one latency, n-1 times the size on the root's link.
template <net::Transport T>
result<void> broadcast_flat(T& transport, flight<T>& ops, net::peer_index root, std::span<std::byte> data) {
  const net::peer_index self = transport.self();
  if (self != root) {
    ops.receive(0, root, part{}, data);
    return ops.wait_exact(0, root, data.size());
  }
  for (net::peer_index p = 0; p < transport.size(); ++p) {
    if (p != root) ops.send(p, p, part{}, data);
  }
  for (net::peer_index p = 0; p < transport.size(); ++p) CAUSEWAY_TRY(ops.finish(p, p));
  return {};
}

/// From peer to peer, chunk by chunk: nobody sends more than the size once.
template <net::Transport T>
result<void> broadcast_chain(T& transport, flight<T>& ops, net::peer_index root, std::span<std::byte> data,
                             std::size_t chunk, std::size_t chunks) {
  const net::peer_index self = transport.self();
  const std::uint32_t peers = transport.size();
  const bool first = self == root;
  const bool last = (self + 1) % peers == root;
  const net::peer_index left = (self + peers - 1) % peers;
  const net::peer_index right = (self + 1) % peers;
  const auto piece = [&](std::size_t k) { return data.subspan(k * chunk, std::min(chunk, data.size() - k * chunk)); };
  for (std::size_t k = 0; k < chunks && !first; ++k) ops.receive(k, left, part{0, k}, piece(k));
  for (std::size_t k = 0; k < chunks; ++k) {
    if (!first) CAUSEWAY_TRY(ops.wait_exact(k, left, piece(k).size()));
    if (!last) ops.send(chunks + k, right, part{0, k}, piece(k));
  }
  for (std::size_t k = 0; k < chunks; ++k) CAUSEWAY_TRY(ops.finish(chunks + k, right));
  return {};
}

}  // namespace detail

/// `data` of `root` replaces everybody's; all give as many bytes. Up to options.one_shot_bytes the root sends to each peer
/// (1 latency, (n-1) size bytes); beyond, the bytes go along a chain of the peers in chunks (n-1 latencies, each peer sends
/// at most the size once). Errors name the peer that was waited for.
template <net::Transport T>
result<void> broadcast(T& transport, const net::message_id& id, net::peer_index root, std::span<std::byte> data,
                       const collective_options& options = {}) {
  CAUSEWAY_EXPECT(root < transport.size());
  if (data.empty() || transport.size() == 1) return {};
  collective_workspace own;
  auto& places = (options.workspace != nullptr ? *options.workspace : own).operations();
  if (data.size() <= options.one_shot_bytes) {
    flight<T> ops{transport, id, options.deadline, places, transport.size()};
    return detail::broadcast_flat(transport, ops, root, data);
  }
  const std::size_t chunk = std::max(options.chunk_bytes, std::size_t{1});
  const std::size_t chunks = (data.size() + chunk - 1) / chunk;
  flight<T> ops{transport, id, options.deadline, places, 2 * chunks};
  return detail::broadcast_chain(transport, ops, root, data, chunk, chunks);
}

/// As above, for values of a trivially copyable type. All peers must have the same byte order.
template <net::Transport T, class V>
  requires(std::is_trivially_copyable_v<V> && !std::same_as<V, std::byte>)
result<void> broadcast(T& transport, const net::message_id& id, net::peer_index root, std::span<V> values,
                       const collective_options& options = {}) {
  return broadcast(transport, id, root, std::as_writable_bytes(values), options);
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_BROADCAST_HPP

// ---- causeway/collective/conversation.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_CONVERSATION_HPP
#define CAUSEWAY_COLLECTIVE_CONVERSATION_HPP

// The sends and receives of an exchange that is cut into phases: as `flight`, but it lives in the exchange and stays open
// between its calls. Closing it, and destroying it, cancels what is under way: buffers are free again.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Numbered places, each empty or holding one operation. Movable: buffers belong to somebody else. Not thread-safe.
class conversation {
 public:
  CAUSEWAY_DECL void open(const exchange_port& port, std::size_t places);

  [[nodiscard]] bool is_open() const noexcept { return !places_.empty(); }

  /// Cancels what is under way.
  void close() { places_.clear(); }

  CAUSEWAY_DECL net::operation send(std::size_t place, net::peer_index to, const part& what,
                                    std::span<const std::byte> bytes);

  CAUSEWAY_DECL void receive(std::size_t place, net::peer_index from, const part& what, std::span<std::byte> buffer);

  /// Of the transport; 0 where the place is empty.
  [[nodiscard]] net::operation at(std::size_t place) const { return places_[place].number(); }
  /// Whether `wait` returns at once.
  [[nodiscard]] bool done(std::size_t place) const { return places_[place].done(); }
  /// As Transport::wait_any.
  bool wait_any(std::span<const net::operation> ops, time_point deadline) { return transport_->wait_any(ops, deadline); }

  /// Bytes moved by the operation in `place`; 0 where there is none. An error names the peer, and closes.
  CAUSEWAY_DECL result<std::size_t> wait(std::size_t place, net::peer_index peer, time_point deadline);

  /// As wait, for a send.
  CAUSEWAY_DECL result<void> finish(std::size_t place, net::peer_index peer, time_point deadline);

 private:
  net::any_transport* transport_ = nullptr;
  net::message_id id_;
  std::vector<net::scoped_operation> places_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_CONVERSATION_HPP

// ---- causeway/collective/impl/conversation.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL void conversation::open(const exchange_port& port, std::size_t places) {
  close();
  transport_ = &port.transport;
  id_ = port.id;
  places_.resize(places);
}

CAUSEWAY_DECL net::operation conversation::send(std::size_t place, net::peer_index to, const part& what,
                                                std::span<const std::byte> bytes) {
  CAUSEWAY_EXPECT(is_open() && !places_[place].started());
  const net::operation sent = transport_->send(to, detail::id_of(id_, what), bytes);
  places_[place] = {*transport_, sent};
  return sent;
}

CAUSEWAY_DECL void conversation::receive(std::size_t place, net::peer_index from, const part& what,
                                         std::span<std::byte> buffer) {
  CAUSEWAY_EXPECT(is_open() && !places_[place].started());
  places_[place] = {*transport_, transport_->receive(from, detail::id_of(id_, what), buffer)};
}

CAUSEWAY_DECL result<std::size_t> conversation::wait(std::size_t place, net::peer_index peer, time_point deadline) {
  CAUSEWAY_EXPECT(is_open());
  auto moved = detail::naming(peer, places_[place].wait(deadline));
  if (!moved) close();
  return moved;
}

CAUSEWAY_DECL result<void> conversation::finish(std::size_t place, net::peer_index peer, time_point deadline) {
  return detail::without_size(wait(place, peer, deadline));
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_CONVERSATION_IPP
#endif

// ---- causeway/collective/gather.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_GATHER_HPP
#define CAUSEWAY_COLLECTIVE_GATHER_HPP

// Everybody's bytes to one peer, or to all. Lengths may differ: each peer says its length first, and nobody reserves more
// than the caller's limit because somebody else says so. And whether all peers hold the same thing.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// The places of one gather's operations: for every peer a length and bytes, out and in.
struct gather_places {
  std::size_t peers;
  [[nodiscard]] std::size_t length_out(net::peer_index p) const { return p; }
  [[nodiscard]] std::size_t bytes_out(net::peer_index p) const { return peers + p; }
  [[nodiscard]] std::size_t length_in(net::peer_index p) const { return 2 * peers + p; }
  [[nodiscard]] std::size_t bytes_in(net::peer_index p) const { return 3 * peers + p; }
};

CAUSEWAY_DECL error too_long(net::peer_index peer, std::size_t offered, std::size_t limit);

/// Receives from all others: `lengths` are under way already.
template <net::Transport T>
result<void> collect(flight<T>& ops, const gather_places& at, std::span<const std::size_t> lengths, std::size_t limit,
                     std::vector<std::vector<std::byte>>& all) {
  for (net::peer_index p = 0; p < lengths.size(); ++p) {
    if (p == ops.self()) continue;
    CAUSEWAY_TRY(ops.wait_exact(at.length_in(p), p, sizeof(std::uint64_t)));
    if (lengths[p] > limit) return too_long(p, lengths[p], limit);
    all[p].resize(lengths[p]);
    ops.receive(at.bytes_in(p), p, part{1}, all[p]);
  }
  for (net::peer_index p = 0; p < lengths.size(); ++p) {
    if (p != ops.self()) CAUSEWAY_TRY(ops.wait_exact(at.bytes_in(p), p, all[p].size()));
  }
  return {};
}

/// Sends `mine` to the peers that `wants` names, and receives from all others if `wants` names this one.
template <net::Transport T, class Wants>
result<void> gather_to(T& transport, const net::message_id& id, std::span<const std::byte> mine, std::size_t limit,
                       std::vector<std::vector<std::byte>>& all, const Wants& wants, const collective_options& options) {
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));  // lengths travel as the workspace holds them
  const net::peer_index self = transport.self();
  if (mine.size() > limit) return too_long(self, mine.size(), limit);
  const gather_places at{transport.size()};
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  auto& lengths = workspace.sizes();
  lengths.assign(at.peers, mine.size());
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 4 * at.peers};
  for (net::peer_index p = 0; p < at.peers && wants(self); ++p) {
    if (p != self) ops.receive(at.length_in(p), p, part{0}, std::as_writable_bytes(std::span{&lengths[p], 1}));
  }
  for (net::peer_index p = 0; p < at.peers; ++p) {
    if (p == self || !wants(p)) continue;
    ops.send(at.length_out(p), p, part{0}, std::as_bytes(std::span{&lengths[self], 1}));
    ops.send(at.bytes_out(p), p, part{1}, mine);
  }
  if (wants(self)) {
    all.resize(at.peers);
    all[self].assign(mine.begin(), mine.end());
    CAUSEWAY_TRY(collect(ops, at, lengths, limit, all));
  }
  for (net::peer_index p = 0; p < at.peers; ++p) {
    CAUSEWAY_TRY(ops.finish(at.length_out(p), p));
    CAUSEWAY_TRY(ops.finish(at.bytes_out(p), p));
  }
  return {};
}

}  // namespace detail

/// all[p] = the bytes of peer p, on `root`; left alone elsewhere. At most `limit` bytes each (errc::too_large, naming the
/// peer that offers more). 1 latency; every peer but the root sends its bytes and 8 more.
result<void> gather(net::Transport auto& transport, const net::message_id& id, net::peer_index root,
                    std::span<const std::byte> mine, std::size_t limit, std::vector<std::vector<std::byte>>& all,
                    const collective_options& options = {}) {
  CAUSEWAY_EXPECT(root < transport.size());
  const auto wants = [root](net::peer_index p) { return p == root; };
  return detail::gather_to(transport, id, mine, limit, all, wants, options);
}

/// As gather, on every peer: 1 latency; every peer sends n-1 times its bytes and 8 more.
result<void> all_gather(net::Transport auto& transport, const net::message_id& id, std::span<const std::byte> mine,
                        std::size_t limit, std::vector<std::vector<std::byte>>& all,
                        const collective_options& options = {}) {
  const auto wants = [](net::peer_index) { return true; };
  return detail::gather_to(transport, id, mine, limit, all, wants, options);
}

/// For parts of equal length: `all` has n parts of mine.size() bytes; part p becomes the bytes of peer p. 1 latency; every
/// peer sends n-1 times its bytes. `mine` may be the peer's own part of `all`.
template <net::Transport T>
result<void> all_gather(T& transport, const net::message_id& id, std::span<const std::byte> mine, std::span<std::byte> all,
                        const collective_options& options = {}) {
  const net::peer_index self = transport.self();
  const std::uint32_t peers = transport.size();
  const std::size_t size = mine.size();
  CAUSEWAY_EXPECT(all.size() == size * peers);
  collective_workspace own;
  collective_workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  flight<T> ops{transport, id, options.deadline, workspace.operations(), 2 * std::size_t{peers}};
  for (std::uint32_t i = 1; i < peers; ++i) {
    const net::peer_index from = (self + peers - i) % peers;
    ops.receive(peers + from, from, part{}, all.subspan(from * size, size));
  }
  for (std::uint32_t i = 1; i < peers; ++i) ops.send((self + i) % peers, (self + i) % peers, part{}, mine);
  if (size > 0) std::memmove(all.data() + self * size, mine.data(), size);
  for (net::peer_index p = 0; p < peers; ++p) {
    if (p != self) CAUSEWAY_TRY(ops.wait_exact(peers + p, p, size));
  }
  for (net::peer_index p = 0; p < peers; ++p) CAUSEWAY_TRY(ops.finish(p, p));
  return {};
}

/// errc::diverged, with `complaint`, names the first peer whose number is another one. 8 bytes from and to everybody.
result<void> all_equal(net::Transport auto& transport, const net::message_id& id, std::uint64_t own,
                       const std::string& complaint, const collective_options& options = {}) {
  if (transport.size() == 1) return {};
  std::vector<std::uint64_t> all(transport.size());
  CAUSEWAY_TRY(
      all_gather(transport, id, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}), options));
  for (net::peer_index peer = 0; peer < transport.size(); ++peer) {
    if (all[peer] != own) return fail(errc::diverged, "peer " + std::to_string(peer), complaint);
  }
  return {};
}

#ifdef CAUSEWAY_COMPILED
extern template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>,
                                        std::size_t, std::vector<std::vector<std::byte>>&, const collective_options&);
extern template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>,
                                        std::span<std::byte>, const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_GATHER_HPP

// ---- causeway/collective/impl/gather.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL error detail::too_long(net::peer_index peer, std::size_t offered, std::size_t limit) {
  return fail(errc::too_large, peer_name(peer),
              std::to_string(offered) + " bytes to gather, where the caller allows " + std::to_string(limit));
}

#ifdef CAUSEWAY_COMPILED
template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>, std::size_t,
                                 std::vector<std::vector<std::byte>>&, const collective_options&);
template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>,
                                 std::span<std::byte>, const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP
#endif

// ---- causeway/collective/gather_mean.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_GATHER_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_GATHER_MEAN_HPP

// Everybody's whole message to everybody. The topology for sparse codecs whose peers choose coordinates for themselves: a
// sum of such messages is no longer small, so nobody sums on the way. Each peer decodes all messages, its own too, in the
// order of the peers: the same bytes in the same order, hence the same bits everywhere.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Models Exchange. One phase: `turn` does nothing. A peer sends n-1 times its message and 16 bytes; 1 latency. Weights
/// travel with the messages; a peer of weight 0 sends 16 bytes. Memory: n messages of the codec's largest size.
template <class Codec, class Aggregation = mean>
class gather_mean {
 public:
  static constexpr std::string_view name = "gather_mean";
  static constexpr exchange_traits traits{.bit_parity = true,
                                          .own_support = true,
                                          .residual = true,
                                          .counts = Aggregation::counts,
                                          .stateful = false,
                                          .changes_one = Aggregation::changes_one};

  explicit gather_mean(Codec codec = Codec{}, Aggregation aggregator = Aggregation{})
      : codec_{std::move(codec)}, aggregator_{std::move(aggregator)} {}

  [[nodiscard]] const Codec& codec() const noexcept { return codec_; }

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row, const X& ctx) requires MessageCodec<Codec, X> {
    const net::peer_index self = port.transport.self();
    const std::uint32_t peers = port.transport.size();
    talk_.open(port, 2 * std::size_t{peers});
    slot_ = detail::message_slot(codec_.most_bytes(ctx, row.values.size()));
    if (memory_.size() < slot_ * peers) memory_ = aligned_buffer<std::byte>{slot_ * peers};
    own_bytes_ = detail::write_contribution(codec_, ctx, row, slot(self), self);
    for (std::uint32_t i = 1; i < peers; ++i) {
      const net::peer_index from = (self + peers - i) % peers;
      talk_.receive(from, from, part{}, slot(from));
    }
    for (std::uint32_t i = 1; i < peers; ++i) {
      const net::peer_index to = (self + i) % peers;
      talk_.send(peers + to, to, part{}, slot(self).first(own_bytes_));
    }
    return {};
  }

  result<void> turn(const exchange_port&, const exchange_row&, const MessageContext auto&) { return {}; }

  template <MessageContext X>
  result<void> finish(const exchange_port& port, const exchange_row& row, const X& ctx) requires MessageCodec<Codec, X> {
    CAUSEWAY_EXPECT(talk_.is_open());
    const std::uint32_t peers = port.transport.size();
    std::optional<refusal> bad;
    double total = 0;
    messages_.clear();
    for (net::peer_index p = 0; p < peers; ++p) {
      std::size_t moved = own_bytes_;
      if (p != port.transport.self()) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(p, p, port.options.deadline));
      }
      const peer_message m = detail::read_message(p, slot(p).first(moved), row.values.size(), peers);
      if (m.bad && !Aggregation::drops_unusable) note(bad, detail::refused_contribution(p, *m.bad));
      if (m.bad || m.weight == 0) continue;
      total += m.weight;
      messages_.push_back(m);
    }
    for (net::peer_index p = 0; p < peers; ++p) CAUSEWAY_TRY(talk_.finish(peers + p, p, port.options.deadline));
    talk_.close();
    if (!bad) bad = combine(port, row, ctx, total);
    if (bad) return to_error(*bad, peers);
    return {};
  }

  void cancel() { talk_.close(); }

 private:
  [[nodiscard]] std::span<std::byte> slot(net::peer_index p) { return {memory_.data() + p * slot_, slot_}; }

  template <class X>
  std::optional<refusal> combine(const exchange_port& port, const exchange_row& row, const X& ctx, double total) {
    static_assert(Aggregator<Aggregation, Codec, X>);
    const std::size_t n = row.values.size();
    const std::uint32_t peers = port.transport.size();
    const float factor = detail::mean_factor(total);
    if (factor == 0) return refusal{peers, errc::invalid_argument};
    collective_workspace own;
    float* const scratch = reserve(port.options.workspace != nullptr ? *port.options.workspace : own, row.values);
    detail::clear(codec_, ctx.pool, row.values);
    detail::clear(codec_, ctx.pool, row.counts);
    return aggregator_.combine(aggregation<Codec, X>{codec_,
                                                     ctx,
                                                     messages_,
                                                     total,
                                                     factor,
                                                     peers,
                                                     row.values,
                                                     Aggregation::counts ? row.counts : std::span<float>{},
                                                     {scratch, Aggregation::scratch_rows * n}});
  }

  /// The aggregator's rows of working memory: where the codec keeps this row, they lie beside it from then on.
  float* reserve(collective_workspace& workspace, std::span<const float> row) {
    const std::size_t count = Aggregation::scratch_rows * row.size();
    if constexpr (detail::may_keep_rows<Codec>) {
      if (count > 0 && detail::is_kept(codec_, row)) {
        if (scratch_.size() < count) scratch_ = aligned_buffer<float>{count, detail::row_codec(codec_).memory()};
        return scratch_.data();
      }
    }
    return reinterpret_cast<float*>(workspace.reserve(count * sizeof(float)));
  }

  Codec codec_;
  Aggregation aggregator_;
  std::size_t slot_ = 0;
  std::size_t own_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> scratch_;
  std::vector<peer_message> messages_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_GATHER_MEAN_HPP

// ---- causeway/collective/group_view.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP
#define CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP

// Some peers of a transport as a Transport of their own, ranked in the order in which they are listed: pairs, regions, the
// axis of a grid; or all of them in another order, where an algorithm sends to the next rank and the order is what costs.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

using peer_group = std::vector<net::peer_index>;

/// Whether each of `peers` peers is in one group, and no group is empty.
CAUSEWAY_DECL [[nodiscard]] bool has_each_once(const std::vector<peer_group>& groups, std::uint32_t peers);

/// The first of each group.
CAUSEWAY_DECL [[nodiscard]] peer_group hubs_of(const std::vector<peer_group>& groups);

/// The group of a peer: an empty one if it is in none.
CAUSEWAY_DECL [[nodiscard]] peer_group group_of(const std::vector<peer_group>& groups, net::peer_index peer);

/// The peers of each region, every peer once; the first one is the hub. Equal on all peers.
using region_list = std::vector<peer_group>;

/// Where the peers change, so do their numbers: then each says at the beginning of an exchange in which region it is.
struct region_label {
  static constexpr std::uint32_t any = UINT32_MAX;  ///< of a peer that does not know: the smallest then

  std::uint32_t own = any;   ///< this peer's; peers that say the same are near each other
  std::uint32_t fewest = 2;  ///< regions there are, if so many peers are: more only where peers say so
};

/// The regions of peers that said `own[peer]`: in the order of their numbers, each with its peers in theirs. Peers that do
/// not know go where the fewest are, one after another; where nobody says anything that are `fewest` regions of equal size.
CAUSEWAY_DECL region_list regions_by_label(const std::vector<std::uint32_t>& own, std::uint32_t fewest);

/// Models Transport. Nothing is sent to anybody who is not listed. Threading: as the transport below, which must stay where
/// it is while the view is used. Groups that share no peer may use the same message ids; a peer that talks in two groups at
/// once needs different ones. Errors of the transport name its peers, not ranks.
class group_view {
 public:
  /// `members[r]` is the peer of rank r: distinct peers of `over`, its own self among them, in the same order on all of
  /// them.
  CAUSEWAY_DECL group_view(net::any_transport& over, std::vector<net::peer_index> members);

  [[nodiscard]] net::peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  [[nodiscard]] net::peer_index peer_of(net::peer_index rank) const noexcept { return members_[rank]; }

  CAUSEWAY_DECL net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer);
  CAUSEWAY_DECL result<std::size_t> wait(net::operation op, time_point deadline);
  [[nodiscard]] bool done(net::operation op) const { return op == no_operation || over_->done(op); }
  CAUSEWAY_DECL bool wait_any(std::span<const net::operation> ops, time_point deadline);

  /// Of the whole transport.
  [[nodiscard]] traffic stats() const { return over_->stats(); }

 private:
  static constexpr net::operation no_operation = 0;

  [[nodiscard]] bool is_other(net::peer_index rank) const noexcept { return rank < members_.size() && rank != self_; }

  CAUSEWAY_DECL [[nodiscard]] net::peer_index rank_of(net::peer_index peer) const;
  CAUSEWAY_DECL [[nodiscard]] bool are_distinct() const;

  net::any_transport* over_;
  std::vector<net::peer_index> members_;
  net::peer_index self_;
};
static_assert(net::Transport<group_view>);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP

// ---- causeway/collective/impl/group_view.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_GROUP_VIEW_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_GROUP_VIEW_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL bool has_each_once(const std::vector<peer_group>& groups, std::uint32_t peers) {
  std::vector<net::peer_index> all;
  for (const auto& group : groups) {
    if (group.empty()) return false;
    all.insert(all.end(), group.begin(), group.end());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != i) return false;
  }
  return all.size() == peers;
}

CAUSEWAY_DECL peer_group hubs_of(const std::vector<peer_group>& groups) {
  peer_group hubs;
  for (const peer_group& group : groups) hubs.push_back(group.front());
  return hubs;
}

CAUSEWAY_DECL peer_group group_of(const std::vector<peer_group>& groups, net::peer_index peer) {
  for (const peer_group& group : groups) {
    if (std::find(group.begin(), group.end(), peer) != group.end()) return group;
  }
  return {};
}

CAUSEWAY_DECL region_list regions_by_label(const std::vector<std::uint32_t>& own, std::uint32_t fewest) {
  std::map<std::uint32_t, std::vector<net::peer_index>> named;
  for (net::peer_index p = 0; p < own.size(); ++p) {
    if (own[p] != region_label::any) named[own[p]].push_back(p);
  }
  region_list all;
  for (auto& [name, peers] : named) all.push_back(std::move(peers));
  all.resize(std::max<std::size_t>({all.size(), fewest, 1}));
  for (net::peer_index p = 0; p < own.size(); ++p) {
    if (own[p] != region_label::any) continue;
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    std::min_element(all.begin(), all.end(), fewer)->push_back(p);
  }
  std::erase_if(all, [](const auto& peers) { return peers.empty(); });
  return all;
}

CAUSEWAY_DECL group_view::group_view(net::any_transport& over, std::vector<net::peer_index> members)
    : over_{&over}, members_{std::move(members)}, self_{rank_of(over.self())} {
  CAUSEWAY_EXPECT(self_ < members_.size());
  CAUSEWAY_EXPECT(are_distinct());
}

CAUSEWAY_DECL net::operation group_view::send(net::peer_index to, const net::message_id& id,
                                              std::span<const std::byte> bytes) {
  return is_other(to) ? over_->send(members_[to], id, bytes) : no_operation;
}

CAUSEWAY_DECL net::operation group_view::receive(net::peer_index from, const net::message_id& id,
                                                 std::span<std::byte> buffer) {
  return is_other(from) ? over_->receive(members_[from], id, buffer) : no_operation;
}

CAUSEWAY_DECL result<std::size_t> group_view::wait(net::operation op, time_point deadline) {
  if (op == no_operation) return fail(errc::invalid_argument, "group", "there is no such other rank");
  return over_->wait(op, deadline);
}

CAUSEWAY_DECL bool group_view::wait_any(std::span<const net::operation> ops, time_point deadline) {
  return std::find(ops.begin(), ops.end(), no_operation) != ops.end() || over_->wait_any(ops, deadline);
}

CAUSEWAY_DECL net::peer_index group_view::rank_of(net::peer_index peer) const {
  return static_cast<net::peer_index>(std::find(members_.begin(), members_.end(), peer) - members_.begin());
}

CAUSEWAY_DECL bool group_view::are_distinct() const {
  std::vector<net::peer_index> sorted = members_;
  std::sort(sorted.begin(), sorted.end());
  return sorted.back() < over_->size() && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_GROUP_VIEW_IPP
#endif

// ---- causeway/collective/link_times.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_LINK_TIMES_HPP
#define CAUSEWAY_COLLECTIVE_LINK_TIMES_HPP

// What each link takes for a byte, measured while a run goes on: by a short probe on each link, one after another at each
// peer, and then told to all, so that all peers plan alike.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct link_probe {
  std::uint32_t every = 0;          ///< exchanges from one measurement to the next; 0: links are not measured
  std::uint32_t bytes = 1U << 16U;  ///< of a probe, at least 1
};

/// The partner of `self` in turn `turn` of `peers` - 1, or of `peers` where they are an odd number: everybody meets
/// everybody once, two by two. Oneself, where one is left over.
CAUSEWAY_DECL [[nodiscard]] net::peer_index probe_partner(net::peer_index self, std::uint32_t peers, std::uint32_t turn);

/// costs[from · peers + to] ← seconds per byte, as link_costs has them, equal on all peers; where there were some, half of
/// them stays. The receiver says when it listens, and takes the time between two messages that were sent one right after
/// the other: neither a delay nor who comes late is in it. What else is on a line at that time is.
///
/// All peers call it at once. `id`: 16 channels from id.channel on are ours; a number of its own for each measurement.
/// Bytes: 2 · peers probes a peer, and 8 · peers to each; about 4 delays and 2 probes a turn. Errors name the peer.
CAUSEWAY_DECL result<void> measure_links(net::any_transport& transport, const any_clock& clock, const net::message_id& id,
                                         const collective_options& options, std::uint32_t bytes,
                                         std::vector<double>& costs);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_LINK_TIMES_HPP

// ---- causeway/collective/impl/link_times.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_LINK_TIMES_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_LINK_TIMES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

// A table of the "circle method": one peer stays where it is, the others go round.
CAUSEWAY_DECL net::peer_index probe_partner(net::peer_index self, std::uint32_t peers, std::uint32_t turn) {
  const std::uint32_t round = peers % 2 == 0 ? peers - 1 : peers;  // places that go round
  if (self == round) return turn % round;                          // the one that stays
  const std::uint32_t partner = (2 * turn + round - self) % round;
  if (partner != self) return partner;
  return peers % 2 == 0 ? round : self;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// The talk of two peers: `ready`, then a byte and a probe. Channels: 0, 1, 2.
struct link_talk {
  const exchange_port& port;
  net::peer_index other;
  std::span<std::byte> probe;

  /// Seconds from the byte to the end of the probe.
  result<double> listen(const any_clock& clock) const {
    conversation talk;
    talk.open(port, 3);
    std::byte ready{1}, first{};
    talk.receive(1, other, part{1}, {&first, 1});
    talk.receive(2, other, part{2}, probe);
    talk.send(0, other, part{0}, {&ready, 1});
    CAUSEWAY_TRY(talk.finish(0, other, port.options.deadline));
    CAUSEWAY_TRY(talk.wait(1, other, port.options.deadline));
    const time_point begin = clock.now();
    CAUSEWAY_TRY(talk.wait(2, other, port.options.deadline));
    return seconds(clock.now() - begin);
  }
  result<void> answer() const {
    conversation talk;
    talk.open(port, 3);
    std::byte ready{}, first{1};
    talk.receive(0, other, part{0}, {&ready, 1});
    CAUSEWAY_TRY(talk.wait(0, other, port.options.deadline));
    talk.send(1, other, part{1}, {&first, 1});
    talk.send(2, other, part{2}, probe);
    CAUSEWAY_TRY(talk.finish(1, other, port.options.deadline));
    return talk.finish(2, other, port.options.deadline);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL result<void> measure_links(net::any_transport& transport, const any_clock& clock, const net::message_id& id,
                                         const collective_options& options, std::uint32_t bytes,
                                         std::vector<double>& costs) {
  const std::uint32_t peers = transport.size();
  const net::peer_index self = transport.self();
  if (bytes == 0) return fail(errc::invalid_argument, "link_probe", "a probe of 0 bytes takes no time; use 1 or more");
  std::vector<std::byte> probe(bytes);
  std::vector<double> own(peers), all(std::size_t{peers} * peers);  // own[p]: from p to here
  const exchange_port port{transport, id, options};
  for (std::uint32_t turn = 0; turn < (peers % 2 == 0 ? peers - 1 : peers); ++turn) {
    const net::peer_index other = probe_partner(self, peers, turn);
    if (other == self) continue;
    const detail::link_talk talk{port, other, probe};
    if (self > other) CAUSEWAY_TRY(talk.answer());
    CAUSEWAY_ASSIGN(const double taken, talk.listen(clock));
    own[other] = taken / bytes;
    if (self < other) CAUSEWAY_TRY(talk.answer());
  }
  net::message_id told = id;
  told.channel += 3;
  if (peers > 1) {
    CAUSEWAY_TRY(
        all_gather(transport, told, std::as_bytes(std::span{own}), std::as_writable_bytes(std::span{all}), options));
  }
  const bool known = costs.size() == all.size();
  costs.resize(all.size());
  for (net::peer_index to = 0; to < peers; ++to) {
    for (net::peer_index from = 0; from < peers; ++from) {
      double& cost = costs[std::size_t{from} * peers + to];
      const double now = all[std::size_t{to} * peers + from];
      cost = known ? (cost + now) / 2 : now;
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_LINK_TIMES_IPP
#endif

// ---- causeway/collective/ring_order.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_RING_ORDER_HPP
#define CAUSEWAY_COLLECTIVE_RING_ORDER_HPP

// In which order peers should stand in a ring, from what each link costs: a travelling salesman's problem with costs that
// may differ between the two directions. Exact up to 12 peers (dynamic programming over subsets, Held and Karp 1962), a
// good local optimum beyond. Every peer works it out from the same costs and gets the same order; a group_view makes it the
// ring.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// What the best ring is.
enum class ring_goal : std::uint8_t {
  slowest,  ///< its slowest link is as fast as can be, then the sum is least: for large rows, where all links are busy at
            ///< once
  sum,      ///< the sum of its costs is least: for small rows, where one latency waits for another
};

/// What `peers` peers pay for a message on each link: `costs[i * peers + j]` is the price of i to j, >= 0, in any unit;
/// infinite where there is no link. The diagonal is not looked at.
struct link_costs {
  std::span<const double> costs;
  std::uint32_t peers = 0;

  [[nodiscard]] double operator()(net::peer_index from, net::peer_index to) const { return costs[from * peers + to]; }
};

struct ring_cost {
  double slowest = 0;
  double sum = 0;
};

/// What the ring `order` costs: each peer sends to the next one, the last to the first.
CAUSEWAY_DECL ring_cost cost_of_ring(const link_costs& links, std::span<const net::peer_index> order);

namespace detail {

inline constexpr std::uint32_t exact_ring_peers = 12;
using ring_list = std::vector<net::peer_index>;

CAUSEWAY_DECL bool is_better(const ring_cost& a, const ring_cost& b, ring_goal goal);

/// The best ring by the sum of its links, or by the largest one, over links that cost at most `limit`. best[s][j] is what
/// the best path from peer 0 over exactly the peers of set s costs, when it ends at peer j + 1.
class subset_search {
 public:
  CAUSEWAY_DECL subset_search(const link_costs& links, bool by_sum, double limit);

  /// What the best ring costs, and its order from peer 0 on.
  CAUSEWAY_DECL [[nodiscard]] std::pair<double, ring_list> ring() const;

 private:
  [[nodiscard]] std::size_t at(std::uint32_t set, std::uint32_t j) const { return std::size_t{set} * others_ + j; }
  CAUSEWAY_DECL [[nodiscard]] double link(net::peer_index from, net::peer_index to) const;
  [[nodiscard]] double joined(double path, double link) const { return by_sum_ ? path + link : std::max(path, link); }

  CAUSEWAY_DECL void extend(std::uint32_t set, std::uint32_t j);

  const link_costs& links_;
  bool by_sum_;
  double limit_;
  std::uint32_t others_;
  std::vector<double> best_;
  std::vector<std::uint8_t> before_;
};

CAUSEWAY_DECL ring_list exact_ring(const link_costs& links, ring_goal goal);

/// From `start`, always to the nearest peer that is left.
CAUSEWAY_DECL ring_list nearest_neighbours(const link_costs& links, net::peer_index start);

/// Reverses and moves runs of peers as long as that helps (2-opt, Or-opt). Each try costs O(peers).
class local_search {
 public:
  CAUSEWAY_DECL local_search(const link_costs& links, ring_goal goal, ring_list order);

  [[nodiscard]] const ring_list& order() const noexcept { return order_; }
  [[nodiscard]] const ring_cost& cost() const noexcept { return cost_; }

 private:
  CAUSEWAY_DECL bool reverse_runs();

  CAUSEWAY_DECL bool move_runs();

  CAUSEWAY_DECL bool move_run(std::size_t first, std::size_t length, std::size_t to);

  CAUSEWAY_DECL bool keep_if_better();

  const link_costs& links_;
  ring_goal goal_;
  ring_list order_;
  ring_list tried_;
  ring_cost cost_;
};

/// Costs with a price on links that do not exist, higher than that of any ring without one: so that fewer of them is
/// better.
CAUSEWAY_DECL std::vector<double> with_penalties(std::span<const double> costs);

CAUSEWAY_DECL ring_list searched_ring(const link_costs& with_gaps, ring_goal goal, std::uint64_t seed);

}  // namespace detail

/// The peers in the order of a good ring, from peer 0 on: the best one up to 12 peers. Deterministic: the same costs and
/// seed give the same order on every machine. Time: about a millisecond up to 12 peers; a tenth of a
/// second for 64.
CAUSEWAY_DECL std::vector<net::peer_index> ring_order(const link_costs& links, ring_goal goal = ring_goal::slowest,
                                                      std::uint64_t seed = 0);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_RING_ORDER_HPP

// ---- causeway/collective/impl/ring_order.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_RING_ORDER_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_RING_ORDER_IPP

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL ring_cost cost_of_ring(const link_costs& links, std::span<const net::peer_index> order) {
  ring_cost c;
  for (std::size_t i = 0; i < order.size() && order.size() > 1; ++i) {
    const double link = links(order[i], order[(i + 1) % order.size()]);
    c.slowest = std::max(c.slowest, link);
    c.sum += link;
  }
  return c;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL bool is_better(const ring_cost& a, const ring_cost& b, ring_goal goal) {
  if (goal == ring_goal::sum) return a.sum < b.sum;
  return a.slowest < b.slowest || (a.slowest == b.slowest && a.sum < b.sum);
}

CAUSEWAY_DECL subset_search::subset_search(const link_costs& links, bool by_sum, double limit)
    : links_{links},
      by_sum_{by_sum},
      limit_{limit},
      others_{links.peers - 1},
      best_((std::size_t{1} << others_) * others_, std::numeric_limits<double>::infinity()),
      before_(best_.size(), 0) {
  for (std::uint32_t j = 0; j < others_; ++j) best_[at(1U << j, j)] = link(0, j + 1);
  for (std::uint32_t set = 1; set < (1U << others_); ++set) {
    for (std::uint32_t j = 0; j < others_; ++j) {
      if ((set >> j & 1U) != 0 && std::popcount(set) > 1) extend(set, j);
    }
  }
}

CAUSEWAY_DECL std::pair<double, ring_list> subset_search::ring() const {
  std::uint32_t set = (1U << others_) - 1, last = 0;
  const auto closed = [&](std::uint32_t j) { return joined(best_[at(set, j)], link(j + 1, 0)); };
  for (std::uint32_t j = 1; j < others_; ++j) {
    if (closed(j) < closed(last)) last = j;
  }
  const double cost = closed(last);
  ring_list order;
  while (set != 0) {
    order.push_back(last + 1);
    const std::uint32_t previous = before_[at(set, last)];
    set &= ~(1U << last);
    last = previous;
  }
  order.push_back(0);
  std::reverse(order.begin(), order.end());
  return {cost, order};
}

CAUSEWAY_DECL double subset_search::link(net::peer_index from, net::peer_index to) const {
  const double cost = links_(from, to);
  return cost <= limit_ ? cost : std::numeric_limits<double>::infinity();
}

CAUSEWAY_DECL void subset_search::extend(std::uint32_t set, std::uint32_t j) {
  const std::uint32_t rest = set & ~(1U << j);
  before_[at(set, j)] = static_cast<std::uint8_t>(std::countr_zero(rest));  // some path, also where no links are
  for (std::uint32_t k = 0; k < others_; ++k) {
    if ((rest >> k & 1U) == 0) continue;
    const double cost = joined(best_[at(rest, k)], link(k + 1, j + 1));
    if (cost >= best_[at(set, j)]) continue;
    best_[at(set, j)] = cost;
    before_[at(set, j)] = static_cast<std::uint8_t>(k);
  }
}

CAUSEWAY_DECL ring_list exact_ring(const link_costs& links, ring_goal goal) {
  double limit = std::numeric_limits<double>::infinity();
  if (goal == ring_goal::slowest) limit = subset_search{links, false, limit}.ring().first;
  return subset_search{links, true, limit}.ring().second;
}

CAUSEWAY_DECL ring_list nearest_neighbours(const link_costs& links, net::peer_index start) {
  ring_list order(links.peers);
  std::iota(order.begin(), order.end(), 0U);
  std::swap(order[0], order[start]);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto nearest = std::min_element(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(), [&](auto a, auto b) {
      return std::pair{links(order[i - 1], a), a} < std::pair{links(order[i - 1], b), b};
    });
    std::swap(order[i], *nearest);
  }
  return order;
}

CAUSEWAY_DECL local_search::local_search(const link_costs& links, ring_goal goal, ring_list order)
    : links_{links}, goal_{goal}, order_{std::move(order)}, cost_{cost_of_ring(links, order_)} {
  while (reverse_runs() || move_runs()) {
  }
}

CAUSEWAY_DECL bool local_search::reverse_runs() {
  bool helped = false;
  for (std::size_t first = 0; first + 1 < order_.size(); ++first) {
    for (std::size_t last = first + 2; last <= order_.size(); ++last) {
      tried_ = order_;
      std::reverse(tried_.begin() + static_cast<std::ptrdiff_t>(first), tried_.begin() + static_cast<std::ptrdiff_t>(last));
      helped = keep_if_better() || helped;
    }
  }
  return helped;
}

CAUSEWAY_DECL bool local_search::move_runs() {
  constexpr std::size_t longest = 3;
  bool helped = false;
  for (std::size_t length = 1; length <= longest; ++length) {
    for (std::size_t first = 0; first + length <= order_.size(); ++first) {
      for (std::size_t to = 0; to + length <= order_.size(); ++to) helped = move_run(first, length, to) || helped;
    }
  }
  return helped;
}

CAUSEWAY_DECL bool local_search::move_run(std::size_t first, std::size_t length, std::size_t to) {
  tried_ = order_;
  const auto at = tried_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto size = static_cast<std::ptrdiff_t>(length);
  const auto target = tried_.begin() + static_cast<std::ptrdiff_t>(to);
  if (to < first) std::rotate(target, at, at + size);
  if (to > first) std::rotate(at, at + size, target + size);
  return keep_if_better();
}

CAUSEWAY_DECL bool local_search::keep_if_better() {
  const ring_cost c = cost_of_ring(links_, tried_);
  if (!is_better(c, cost_, goal_)) return false;
  cost_ = c;
  std::swap(order_, tried_);
  return true;
}

CAUSEWAY_DECL std::vector<double> with_penalties(std::span<const double> costs) {
  std::vector<double> finite(costs.begin(), costs.end());
  double penalty = 1;
  for (const double c : costs) penalty += c < std::numeric_limits<double>::infinity() ? c : 0;
  for (double& c : finite) c = std::min(c, penalty);
  return finite;
}

CAUSEWAY_DECL ring_list searched_ring(const link_costs& with_gaps, ring_goal goal, std::uint64_t seed) {
  constexpr int starts = 8;
  const std::vector<double> finite = with_penalties(with_gaps.costs);
  const link_costs links{finite, with_gaps.peers};
  rng draw{seed};
  local_search best{links, goal, nearest_neighbours(links, 0)};
  ring_list order = best.order();
  ring_cost cost = best.cost();
  for (int i = 1; i < starts; ++i) {
    const auto start = static_cast<net::peer_index>(draw.below(links.peers));
    const local_search next{links, goal, nearest_neighbours(links, start)};
    if (!is_better(next.cost(), cost, goal)) continue;
    cost = next.cost();
    order = next.order();
  }
  std::rotate(order.begin(), std::find(order.begin(), order.end(), 0U), order.end());
  return order;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<net::peer_index> ring_order(const link_costs& links, ring_goal goal, std::uint64_t seed) {
  CAUSEWAY_EXPECT(links.costs.size() == std::size_t{links.peers} * links.peers);
  if (links.peers < 2) return std::vector<net::peer_index>(links.peers, 0);
  if (links.peers <= detail::exact_ring_peers) return detail::exact_ring(links, goal);
  return detail::searched_ring(links, goal, seed);
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_RING_ORDER_IPP
#endif

// ---- causeway/collective/link_trees.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_LINK_TREES_HPP
#define CAUSEWAY_COLLECTIVE_LINK_TREES_HPP

// Trees that follow what links cost, several of them with roots of their own, which use different links where that is no
// detour (NETSTORM's multi-root trees of fastest paths, 2024). Every peer works them out from the same costs and gets the
// same ones.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Trees are lists of each peer's parent; the root's is itself. In this one peers follow the root in the order of their
/// indices, level by level, at most `arity` children to a parent; with 0 all of them are the root's.
CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> index_tree(std::uint32_t peers, net::peer_index root,
                                                                    std::uint32_t arity);

CAUSEWAY_DECL [[nodiscard]] net::peer_index root_of(const std::vector<net::peer_index>& parents);

/// Tree `index` of those with these roots, of at most `arity` children a peer. Peers join in the order in which a row from
/// the root could reach them, the nearest first: a link counts as slow as its slower direction, a parent's lines are shared
/// by its children, and a link is as many times slower as earlier trees have it. With an arity of 0 lines are shared by
/// nobody, and peers have any number of children: each peer's way is its fastest path to the root. Of equal ones the first
/// by index, counted from the root. Time: O(trees · peers³).
CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> link_tree(const link_costs& links,
                                                                   const std::vector<net::peer_index>& roots,
                                                                   std::size_t index, std::uint32_t arity);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_LINK_TREES_HPP

// ---- causeway/collective/impl/link_trees.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_LINK_TREES_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_LINK_TREES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// Trees over the same links, one after another.
class tree_builder {
 public:
  tree_builder(const link_costs& links, std::uint32_t arity) : links_{links}, arity_{arity}, used_(links.costs.size()) {}

  std::vector<net::peer_index> grow(net::peer_index root) {
    parents_.assign(links_.peers, root);
    children_.assign(links_.peers, 0);
    reached_.assign(links_.peers, 0.0);
    joined_.assign(1, root);
    outside_.clear();
    for (net::peer_index p = 0; p + 1 < links_.peers; ++p) outside_.push_back((root + 1 + p) % links_.peers);
    while (!outside_.empty()) join_next();
    return parents_;
  }

 private:
  /// Of a link from `parent`, whose lines its children share, unless each link is a line of its own.
  [[nodiscard]] double weight(net::peer_index parent, net::peer_index child) const {
    const double alone = std::max(links_(parent, child), links_(child, parent));
    if (arity_ == 0) return alone;
    return (1 + children_[parent]) * alone * (1 + used_[parent * links_.peers + child]);
  }

  void join_next() {
    net::peer_index parent = joined_.front();
    std::size_t child = 0;
    double soonest = std::numeric_limits<double>::infinity();
    bool found = false;
    for (const net::peer_index p : joined_) {
      if (arity_ > 0 && children_[p] >= arity_) continue;
      for (std::size_t c = 0; c < outside_.size(); ++c) {
        const double at = reached_[p] + weight(p, outside_[c]);
        if (found && !(at < soonest)) continue;  // the first of equal ones
        found = true;
        soonest = at, parent = p, child = c;
      }
    }
    const net::peer_index joins = outside_[child];
    parents_[joins] = parent;
    reached_[joins] = soonest;
    ++children_[parent];
    joined_.push_back(joins);
    outside_.erase(outside_.begin() + static_cast<std::ptrdiff_t>(child));
    ++used_[parent * links_.peers + joins];
    ++used_[joins * links_.peers + parent];
  }

  const link_costs& links_;
  std::uint32_t arity_;
  std::vector<std::uint32_t> used_;
  std::vector<net::peer_index> parents_, joined_, outside_;
  std::vector<std::uint32_t> children_;
  std::vector<double> reached_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<net::peer_index> index_tree(std::uint32_t peers, net::peer_index root, std::uint32_t arity) {
  CAUSEWAY_EXPECT(peers > 0);
  std::vector<net::peer_index> parents(peers);
  for (std::uint64_t position = 0; position < peers; ++position) {
    const std::uint64_t above = position == 0 || arity == 0 ? 0 : (position - 1) / arity;
    parents[(position + root) % peers] = static_cast<net::peer_index>((above + root) % peers);
  }
  return parents;
}

CAUSEWAY_DECL net::peer_index root_of(const std::vector<net::peer_index>& parents) {
  net::peer_index at = parents.front();
  while (parents[at] != at) at = parents[at];
  return at;
}

CAUSEWAY_DECL std::vector<net::peer_index> link_tree(const link_costs& links, const std::vector<net::peer_index>& roots,
                                                     std::size_t index, std::uint32_t arity) {
  CAUSEWAY_EXPECT(!roots.empty() && links.costs.size() == std::size_t{links.peers} * links.peers);
  detail::tree_builder builder{links, arity};
  std::vector<net::peer_index> tree;
  for (std::size_t t = 0; t <= index % roots.size(); ++t) tree = builder.grow(roots[t] % links.peers);
  return tree;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_LINK_TREES_IPP
#endif

// ---- causeway/collective/mpi_site_options.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_MPI_SITE_OPTIONS_HPP
#define CAUSEWAY_COLLECTIVE_MPI_SITE_OPTIONS_HPP

// How the ranks of an MPI job can make a sum, and what a site of them may be told.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// How the ranks of a job make a sum.
enum class mpi_way : std::uint8_t {
  all_reduce,  ///< MPI_Iallreduce
  in_parts,    ///< MPI_Ireduce_scatter, then MPI_Iallgatherv
  messages,    ///< collective::all_reduce_sum over net::mpi_transport, in the order of the ranks: the bits of any transport
  direct,      ///< all to all, added here in the same order: f32 of up to 16 KiB, else as all_reduce
  shared       ///< in memory that all ranks share, in the same order: f32 on one host, else as all_reduce
};
inline constexpr mpi_way mpi_ways[] = {mpi_way::all_reduce, mpi_way::in_parts, mpi_way::messages, mpi_way::direct,
                                       mpi_way::shared};

struct mpi_site_options {
  std::size_t measure_up_to = 0;  ///< as `measure`, when the site is opened; 0: nothing is timed
  /// Only `shared` or `messages`: sums have the same bits over any network, on any number of hosts.
  bool same_bits = false;
  thread_pool* pool = nullptr;  ///< for what is computed here; none: the caller's thread. Must outlive the site
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_MPI_SITE_OPTIONS_HPP

// ---- causeway/kernels/reduce.hpp ----
#ifndef CAUSEWAY_KERNELS_REDUCE_HPP
#define CAUSEWAY_KERNELS_REDUCE_HPP

// Sums over flat arrays, in f64. An array is cut into 64 blocks whatever the number of threads, and the blocks' sums are
// added in order: the result is the same bits on every machine and for every number of threads, so peers with different
// processors clip by the same gradient norm.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Sum of x[i]. Reads 4 bytes an element.
CAUSEWAY_DECL double sum(thread_pool& pool, const float* x, std::int64_t count, simd_level level = detect_simd_level());

/// Sum of x[i]·y[i]. Reads 8 bytes an element.
CAUSEWAY_DECL double dot(thread_pool& pool, const float* x, const float* y, std::int64_t count,
                         simd_level level = detect_simd_level());

/// Sum of x[i]². Reads 4 bytes an element. NaN or infinite where x is.
CAUSEWAY_DECL double sum_of_squares(thread_pool& pool, const float* x, std::int64_t count,
                                    simd_level level = detect_simd_level());

/// The square root of `sum_of_squares`.
CAUSEWAY_DECL double euclidean_norm(thread_pool& pool, std::span<const float> x);

/// Whether no element is NaN or infinite. Reads 4 bytes an element.
CAUSEWAY_DECL bool all_finite(thread_pool& pool, const float* x, std::int64_t count,
                              simd_level level = detect_simd_level());

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_REDUCE_HPP

// ---- causeway/kernels/impl/reduce.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_KERNELS_IMPL_REDUCE_IPP
#define CAUSEWAY_KERNELS_IMPL_REDUCE_IPP

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

using f64x2 [[gnu::vector_size(16)]] = double;

/// The product of two f32 is exact in f64, so nothing here depends on contraction.
CAUSEWAY_ALWAYS_INLINE void load(f64x2& v, const float* p) {
#if defined(__x86_64__)
  v = _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  v = f64x2{static_cast<double>(p[0]), static_cast<double>(p[1])};
#endif
}

/// Sum of `term(accumulator, i)` over pairs, then `last(i)` for what is left. Pairs, because GCC makes wider conversions
/// out of them and shuffles; eight accumulators, because one would wait for itself.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE double sum_in_double(std::int64_t count, Term&& term, Last&& last) {
  f64x2 a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    term(a, i);
    term(b, i + 2);
    term(c, i + 4);
    term(d, i + 6);
    term(e, i + 8);
    term(f, i + 10);
    term(g, i + 12);
    term(h, i + 14);
  }
  for (; i + 2 <= count; i += 2) term(a, i);
  a = ((a + b) + (c + d)) + ((e + f) + (g + h));
  double sum = a[0] + a[1];
  for (; i < count; ++i) sum += last(i);
  return sum;
}

struct sum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static double run(const float* x, std::int64_t count) {
    return sum_in_double(
        count,
        [&](f64x2& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          f64x2 v;
          load(v, x + i);
          sum += v;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return static_cast<double>(x[i]); });
  }
};

/// Not `dot` of x with itself: conversions are the bottleneck.
struct square_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static double run(const float* x, std::int64_t count) {
    return sum_in_double(
        count,
        [&](f64x2& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          f64x2 v;
          load(v, x + i);
          sum += v * v;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
  }
};

struct dot_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static double run(const float* x, const float* y, std::int64_t count) {
    return sum_in_double(
        count,
        [&](f64x2& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          f64x2 a, b;
          load(a, x + i);
          load(b, y + i);
          sum += a * b;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return static_cast<double>(x[i]) * static_cast<double>(y[i]); });
  }
};

inline constexpr std::int64_t reduction_blocks = 64;

/// The sum of `block_sum(range)` over the fixed blocks of [0, count), in order.
template <class BlockSum>
double sum_of_blocks(thread_pool& pool, std::int64_t count, BlockSum&& block_sum) {
  const std::int64_t block = ((count + reduction_blocks - 1) / reduction_blocks + 63) / 64 * 64;
  std::array<double, static_cast<std::size_t>(reduction_blocks)> sums{};
  const auto sum_part = [&](index_range blocks) {
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      const std::int64_t begin = b * block < count ? b * block : count;
      const std::int64_t end = begin + block < count ? begin + block : count;
      sums[static_cast<std::size_t>(b)] = block_sum(index_range{begin, end});
    }
  };
  if (count <= smallest_share) {
    sum_part({0, reduction_blocks});
  } else {
    pool.for_range(reduction_blocks, 1, sum_part);
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace detail

CAUSEWAY_DECL double sum(thread_pool& pool, const float* x, std::int64_t count, simd_level level) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::sum_kernel>(level, x + part.begin, part.size());
  });
}

CAUSEWAY_DECL double dot(thread_pool& pool, const float* x, const float* y, std::int64_t count, simd_level level) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::dot_kernel>(level, x + part.begin, y + part.begin, part.size());
  });
}

CAUSEWAY_DECL double sum_of_squares(thread_pool& pool, const float* x, std::int64_t count, simd_level level) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::square_kernel>(level, x + part.begin, part.size());
  });
}

CAUSEWAY_DECL double euclidean_norm(thread_pool& pool, std::span<const float> x) {
  return __builtin_sqrt(sum_of_squares(pool, x.data(), static_cast<std::int64_t>(x.size())));
}

CAUSEWAY_DECL bool all_finite(thread_pool& pool, const float* x, std::int64_t count, simd_level level) {
  return detail::look_for_finite(pool, level, count, x);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_REDUCE_IPP
#endif

// ---- causeway/tensor/parameters.hpp ----
#ifndef CAUSEWAY_TENSOR_PARAMETERS_HPP
#define CAUSEWAY_TENSOR_PARAMETERS_HPP

// A model's parameters as one flat f32 buffer with named pieces, and the gradients beside it in the same layout.
// Optimizers, codecs, collectives and checkpoints see the flat buffers; layers see their pieces. Every piece starts on a
// 64-byte boundary; the padding between pieces is always zero.

namespace causeway { inline namespace CAUSEWAY_ABI {

/// What a parameter is, as far as optimizers care.
enum class parameter_kind : std::uint8_t {
  matrix,     ///< a hidden layer's weight: decayed; Muon's business
  embedding,  ///< token or position table, or the output head: decayed; never Muon's
  vector,     ///< bias or gain: not decayed
};

/// One named piece: `rows` × `columns` row-major values starting at `offset`. A vector has one row.
struct parameter_segment {
  std::string name;
  parameter_kind kind = parameter_kind::matrix;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t offset = 0;
  int block = -1;  ///< the transformer block it belongs to; -1 before the first, the number of blocks after the last

  [[nodiscard]] std::int64_t size() const noexcept { return rows * columns; }
};

/// The values in bf16, in their layout. Who writes all values may write these along, rounded, and say so in `made`.
struct low_precision_copies {
  bf16* values = nullptr;
  bool made = false;
};

/// What an optimizer works on: values and gradients of equal length, and how they are cut.
struct parameter_view {
  std::span<float> values;
  std::span<float> gradients;
  std::span<const parameter_segment> segments;
  low_precision_copies* copies = nullptr;  ///< none: nobody wants them written along
};

/// The values of a flat buffer of `length` that belong to no tensor.
inline std::vector<index_range> padding_of(std::span<const parameter_segment> segments, std::size_t length) {
  std::vector<index_range> padding;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t end = i + 1 < segments.size() ? segments[i + 1].offset : static_cast<std::int64_t>(length);
    const std::int64_t used = segments[i].offset + segments[i].size();
    if (used < end) padding.push_back({used, end});
  }
  return padding;
}

/// One value for each parameter, padding included, in pieces that may lie apart; in the order of the flat buffer.
struct parameter_row {
  std::vector<std::span<float>> pieces;

  /// Calls `f` with what there is of `count` values from `begin` on, piece by piece.
  template <class F>
  void visit(std::size_t begin, std::size_t count, F&& f) const {
    for (const std::span<float> piece : pieces) {
      const std::size_t from = std::min(begin, piece.size());
      const std::size_t size = std::min(count, piece.size() - from);
      if (size > 0) f(piece.subspan(from, size));
      begin -= from, count -= size;
    }
  }
};

/// Calls `f(from, to)` with the places of every piece that both layouts have, by name. Precondition: pieces of one name
/// have one size.
template <class F>
  requires std::invocable<F&, const parameter_segment&, const parameter_segment&>
void for_common_pieces(std::span<const parameter_segment> from, std::span<const parameter_segment> to, F&& f) {
  for (const parameter_segment& t : to) {
    const auto found = std::find_if(from.begin(), from.end(), [&](const auto& s) { return s.name == t.name; });
    if (found != from.end()) f(*found, t);
  }
}

/// Owns the buffers. Add all segments first, then `allocate()`. Not safe to share between threads.
class parameter_store {
 public:
  /// Adds a piece and returns its number.
  std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns, int block = -1) {
    segments_.push_back({std::move(name), kind, rows, columns, length_, block});
    constexpr std::int64_t line = 64 / sizeof(float);
    length_ += (rows * columns + line - 1) / line * line;
    count_ += rows * columns;
    return segments_.size() - 1;
  }

  /// Reserves both buffers, zeroed.
  void allocate(const memory_source& source = {}) {
    allocate_values(source);
    gradients_ = aligned_buffer<float>{static_cast<std::size_t>(length_), source};
  }
  /// The values alone: frozen parameters, whose `gradient` is null.
  void allocate_values(const memory_source& source = {}) {
    values_ = aligned_buffer<float>{static_cast<std::size_t>(length_), source};
  }

  [[nodiscard]] std::span<float> values() noexcept { return values_.span(); }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_.span(); }
  [[nodiscard]] std::span<float> gradients() noexcept { return gradients_.span(); }
  [[nodiscard]] std::span<const parameter_segment> segments() const noexcept { return segments_; }
  [[nodiscard]] parameter_view view() noexcept { return {values(), gradients(), segments_}; }

  /// Where a model keeps the values in bf16, as long as the flat buffers; nullptr: nowhere.
  void keep_copies(bf16* at) noexcept { copies_ = {at, false}; }
  /// The view of who touches the store right after a step, and changes no value between.
  [[nodiscard]] parameter_view view_with_copies() noexcept {
    copies_.made = false;
    return {values(), gradients(), segments_, copies_.values != nullptr ? &copies_ : nullptr};
  }

  [[nodiscard]] float* value(std::size_t segment) noexcept { return values_.data() + segments_[segment].offset; }
  [[nodiscard]] float* gradient(std::size_t segment) noexcept {
    return gradients_.size() == 0 ? nullptr : gradients_.data() + segments_[segment].offset;
  }

  /// Number of parameters, padding not counted.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Length of the flat buffers, padding counted.
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }

  /// Call after changing values from outside the model, so that low-precision copies are made anew.
  void touch() noexcept {
    ++version_;
    if (std::exchange(copies_.made, false)) copied_version_ = version_;
  }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  /// Whether the copies are of the values of now.
  [[nodiscard]] bool has_copies() const noexcept { return copied_version_ == version_; }

  /// A hash of names and shapes: equal on peers that can share a run.
  [[nodiscard]] std::uint64_t layout_hash() const noexcept {
    hasher h;
    for (const auto& s : segments_) {
      h.add_value(hash_text(s.name)).add_value(s.rows).add_value(s.columns).add_value(s.offset);
    }
    return h.finish();
  }

 private:
  std::vector<parameter_segment> segments_;
  aligned_buffer<float> values_;
  aligned_buffer<float> gradients_;
  std::int64_t length_ = 0;
  std::int64_t count_ = 0;
  std::uint64_t version_ = 1;
  low_precision_copies copies_;
  std::uint64_t copied_version_ = 0;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_PARAMETERS_HPP

// ---- causeway/collective/norm_aggregators.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_NORM_AGGREGATORS_HPP
#define CAUSEWAY_COLLECTIVE_NORM_AGGREGATORS_HPP

// Aggregators that look at every peer's contribution tensor by tensor, by its norm. They decode one message at a time, so
// that memory does not grow with the number of peers. What the context calls a matrix is a tensor, and so is what lies
// between two of them.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

struct tensor_piece {
  std::size_t offset = 0;
  std::size_t size = 0;
  bool embedding = false;

  [[nodiscard]] std::span<float> of(std::span<float> row) const { return row.subspan(offset, size); }
};

/// All values of a row of `n`, as the matrices of the context and what lies between them.
std::vector<tensor_piece> tensors_of(const MessageContext auto& ctx, std::size_t n) {
  std::vector<tensor_piece> all;
  std::size_t at = 0;
  for (const auto& m : ctx.matrices) {
    const std::size_t size = m.rows * m.columns;
    CAUSEWAY_EXPECT(m.offset >= at && m.offset + size <= n);
    if (size == 0) continue;
    if (m.offset > at) all.push_back({at, m.offset - at});
    all.push_back({m.offset, size, m.kind == parameter_kind::embedding});
    at = m.offset + size;
  }
  if (at < n) all.push_back({at, n - at});
  return all;
}

CAUSEWAY_DECL void add_scaled(thread_pool& pool, std::span<float> sum, double factor, std::span<const float> x);

inline constexpr double no_norm = -1;  ///< of a tensor that does not count

/// Of each of the `tensors` tensors the median over messages, of two in the middle the lower one: norms[i * tensors + t] is
/// that of tensor t in message i. 0 where no message counts.
CAUSEWAY_DECL std::vector<double> median_norms(const std::vector<double>& norms, std::size_t tensors);

/// row = weight · what a message says, as the codec has it; adds the weight to the counts of what it has.
template <class C, class X>
std::optional<refusal> decode_weighted(const aggregation<C, X>& all, const peer_message& m, float weight,
                                       std::span<float> row, std::span<float> counts) {
  kernels::zero(all.context.pool, row.data(), static_cast<std::int64_t>(row.size()));
  const auto added = all.codec.decode_add(all.context, m.bytes, row, weight, counts);
  if (!added) return refusal{m.peer, added.error().code};
  return std::nullopt;
}

/// row = what a message says, as values.
template <class C, class X>
std::optional<refusal> decode_one(const aggregation<C, X>& all, const peer_message& m, std::span<float> row) {
  if (auto bad = decode_weighted(all, m, 1.0F, row, {})) return bad;
  invert(all.codec, all.context, row);
  return std::nullopt;
}

}  // namespace detail

/// Norms and directions are averaged apart (Decoupled DiLoCo): with x_i the contribution of peer i to a tensor,
///   r = Σ w_i |x_i| / Σ w_i,   u = Σ w_i x_i / |x_i|,   result = r · u / |u|.
/// Contributions that point different ways shrink their mean; here the result keeps their size. A tensor that is 0 counts
/// in r alone; where the directions cancel, the result is 0. Embeddings are averaged as they are: what peers with other
/// tokens do to a table has not the right angles that this is for. Cost: one decode, one norm and one addition a message.
/// Scratch: one row.
struct radial_directional {
  static constexpr std::string_view name = "radial_directional";
  static constexpr std::size_t scratch_rows = 1;
  static constexpr bool counts = false;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    thread_pool& pool = all.context.pool;
    const std::vector<detail::tensor_piece> tensors = detail::tensors_of(all.context, all.out.size());
    std::vector<double> radius(tensors.size());
    for (const peer_message& m : all.messages) {
      if (auto bad = detail::decode_one(all, m, all.scratch)) return bad;
      for (std::size_t t = 0; t < tensors.size(); ++t) radius[t] += add_direction(pool, tensors[t], m.weight, all);
    }
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::span<float> sum = tensors[t].of(all.out);
      double factor = 1 / all.total_weight;
      if (!tensors[t].embedding) {
        const double length = kernels::euclidean_norm(pool, sum);
        factor = length > 0 ? radius[t] / all.total_weight / length : 0;
      }
      if (!detail::scale_finite(pool, sum, static_cast<float>(factor))) return refusal{all.peers, errc::non_finite};
    }
    return std::nullopt;
  }

 private:
  /// Adds the message in scratch to the sum of directions; gives what it adds to the sum of norms.
  template <class C, class X>
  double add_direction(thread_pool& pool, const detail::tensor_piece& t, double weight,
                       const aggregation<C, X>& all) const {
    const std::span<float> x = t.of(all.scratch);
    if (t.embedding) {
      detail::add_scaled(pool, t.of(all.out), weight, x);
      return 0;
    }
    const double norm = kernels::euclidean_norm(pool, x);
    const double factor = weight / norm;
    if (norm > 0 && factor <= double{std::numeric_limits<float>::max()}) detail::add_scaled(pool, t.of(all.out), factor, x);
    return weight * norm;
  }
};

/// No peer pulls harder than the one in the middle (the rule of Templar's aggregation server): each peer's contribution to
/// a tensor is scaled down to the median of the peers' norms of that tensor where it is larger. A tensor with a value
/// beyond `largest`, and a message that cannot be decoded, count for nothing: their weights are not divided by. The median
/// of an even number is the lower one of the two in the middle. Cost: two decodes and one norm a message. Scratch: one row.
struct median_norm_clip {
  static constexpr std::string_view name = "median_norm_clip";
  static constexpr std::size_t scratch_rows = 1;
  static constexpr bool counts = false;
  static constexpr bool drops_unusable = true;
  static constexpr bool changes_one = false;

  float largest = 1000.0F;  ///< of a value, positive

  template <class C, class X>
  std::optional<refusal> combine(const aggregation<C, X>& all) const {
    thread_pool& pool = all.context.pool;
    const std::vector<detail::tensor_piece> tensors = detail::tensors_of(all.context, all.out.size());
    const std::vector<double> norms = norms_of(all, tensors);
    const std::vector<double> limits = detail::median_norms(norms, tensors.size());
    std::vector<double> weights(tensors.size());
    for (std::size_t i = 0; i < all.messages.size(); ++i) {
      const std::span<const double> own{norms.data() + i * tensors.size(), tensors.size()};
      if (std::all_of(own.begin(), own.end(), is_dropped)) continue;
      (void)detail::decode_one(all, all.messages[i], all.scratch);  // it did the first time
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (is_dropped(own[t])) continue;
        const double factor = own[t] > limits[t] ? limits[t] / own[t] : 1.0;
        detail::add_scaled(pool, tensors[t].of(all.out), all.messages[i].weight * factor, tensors[t].of(all.scratch));
        weights[t] += all.messages[i].weight;
      }
    }
    return divide(pool, all, tensors, weights);
  }

 private:
  static constexpr double dropped = detail::no_norm;
  static bool is_dropped(double norm) { return norm < 0; }

  /// The norm of tensor t in message i at [i * tensors + t]; `dropped` for one that does not count.
  template <class C, class X>
  std::vector<double> norms_of(const aggregation<C, X>& all, const std::vector<detail::tensor_piece>& tensors) const {
    thread_pool& pool = all.context.pool;
    std::vector<double> norms;
    for (const peer_message& m : all.messages) {
      const bool decoded = !detail::decode_one(all, m, all.scratch);
      for (const detail::tensor_piece& t : tensors) {
        const std::span<const float> x = t.of(all.scratch);
        const double norm = decoded ? kernels::euclidean_norm(pool, x) : dropped;
        // No value can be larger than the norm: few tensors are looked at twice.
        norms.push_back(norm <= double{largest} || is_within(x) ? norm : dropped);
      }
    }
    return norms;
  }

  CAUSEWAY_DECL [[nodiscard]] bool is_within(std::span<const float> x) const;

  /// A tensor that nobody contributed to stays 0; when that is all of them, there is no result.
  template <class C, class X>
  static std::optional<refusal> divide(thread_pool& pool, const aggregation<C, X>& all,
                                       const std::vector<detail::tensor_piece>& tensors,
                                       const std::vector<double>& weights) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const float factor = detail::mean_factor(weights[t]);
      if (!detail::scale_finite(pool, tensors[t].of(all.out), factor)) return refusal{all.peers, errc::non_finite};
    }
    const bool any = std::any_of(weights.begin(), weights.end(), [](double w) { return w > 0; });
    return any || tensors.empty() ? std::nullopt : std::optional{refusal{all.peers, errc::invalid_argument}};
  }
};

/// contributor_mean of messages of which each tensor is scaled down to the median of the peers' norms of it, where it is
/// longer (what Templar does before SparseLoCo's outer step). For presets that have both, without `clips` it is
/// contributor_mean. Coefficients of a transform are taken for values: ours keep lengths. Cost: two decodes and one norm a
/// message. Scratch: two rows. errc::unsupported: clipping of rows that lie on a device.
struct clipped_contributor_mean {
  static constexpr std::string_view name = "clipped_contributor_mean";
  static constexpr std::size_t scratch_rows = 2;
  static constexpr bool counts = true;
  static constexpr bool drops_unusable = false;
  static constexpr bool changes_one = false;

  bool over_all = false;  ///< divided by the weights of all
  bool clips = false;

  template <class C, class X>
  std::optional<refusal> combine(aggregation<C, X> all) const {
    const std::size_t n = all.out.size();
    const std::span<float> row = all.scratch.last(n);
    all.scratch = all.scratch.first(n);
    if (!clips) return contributor_mean{over_all}.combine(all);
    if (detail::is_kept(all.codec, all.out)) return refusal{all.peers, errc::unsupported};
    const std::span<float> counted = all.counts.empty() ? all.scratch : all.counts;
    kernels::zero(all.context.pool, counted.data(), static_cast<std::int64_t>(n));
    if (auto bad = add_clipped(all, row, counted)) return bad;
    if (auto bad = detail::divide(all, over_all ? std::span<float>{} : counted, over_all ? all.factor : 1.0F)) return bad;
    detail::invert(all.codec, all.context, all.out);
    return std::nullopt;
  }

 private:
  template <class C, class X>
  static std::optional<refusal> add_clipped(const aggregation<C, X>& all, std::span<float> row, std::span<float> counted) {
    const std::vector<detail::tensor_piece> tensors = detail::tensors_of(all.context, row.size());
    std::vector<double> norms;
    for (const peer_message& m : all.messages) {
      if (auto bad = detail::decode_weighted(all, m, 1.0F, row, {})) return bad;
      for (const detail::tensor_piece& t : tensors) norms.push_back(kernels::euclidean_norm(all.context.pool, t.of(row)));
    }
    const std::vector<double> limits = detail::median_norms(norms, tensors.size());
    auto own = norms.begin();
    for (const peer_message& m : all.messages) {
      if (auto bad = detail::decode_weighted(all, m, m.weight, row, counted)) return bad;
      for (std::size_t t = 0; t < tensors.size(); ++t, ++own) {
        const double factor = *own > limits[t] ? limits[t] / *own : 1.0;
        detail::add_scaled(all.context.pool, tensors[t].of(all.out), factor, tensors[t].of(row));
      }
    }
    return std::nullopt;
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_NORM_AGGREGATORS_HPP

// ---- causeway/collective/impl/norm_aggregators.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_NORM_AGGREGATORS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_NORM_AGGREGATORS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL void add_scaled(thread_pool& pool, std::span<float> sum, double factor, std::span<const float> x) {
  kernels::axpy(pool, sum.data(), static_cast<float>(factor), x.data(), static_cast<std::int64_t>(x.size()));
}

CAUSEWAY_DECL std::vector<double> median_norms(const std::vector<double>& norms, std::size_t tensors) {
  std::vector<double> limits(tensors), counted;
  for (std::size_t t = 0; t < tensors; ++t) {
    counted.clear();
    for (std::size_t at = t; at < norms.size(); at += tensors) {
      if (norms[at] != no_norm) counted.push_back(norms[at]);
    }
    if (counted.empty()) continue;
    const auto middle = counted.begin() + static_cast<std::ptrdiff_t>((counted.size() - 1) / 2);
    std::nth_element(counted.begin(), middle, counted.end());
    limits[t] = *middle;
  }
  return limits;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL bool median_norm_clip::is_within(std::span<const float> x) const {
  return std::all_of(x.begin(), x.end(), [this](float v) { return std::abs(v) <= largest; });
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_NORM_AGGREGATORS_IPP
#endif

// ---- causeway/collective/own_sum_mean.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_OWN_SUM_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_OWN_SUM_MEAN_HPP

// The mean of plain f32 rows by the sums of the transport itself (net::SumsItself), such as MPI_Iallreduce: begun in one
// hook and finished in another, so that MPI moves it meanwhile. Over any other transport, by another exchange.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Models Exchange. The row is the transport's from `begin` to `finish`. A sum that has begun cannot be taken back:
/// cancelling waits for it, as long as the transport allows (net::mpi_transport_options::close_grace). All peers see values
/// that cannot be used, as errc::non_finite, and none whose they were. Nothing is left out, so the residual is zero. Bytes:
/// the transport's; or those of `Messages`, the exchange for transports without sums,
/// which must lose nothing and so have nothing to keep.
template <class Messages>
class own_sum_mean {
 public:
  static constexpr std::string_view name = "own_sum_mean";
  static constexpr exchange_traits traits{.bit_parity = Messages::traits.bit_parity,
                                          .own_support = false,
                                          .residual = true,
                                          .counts = false,
                                          .stateful = false};

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row, const X& ctx) {
    cancel();
    if (!port.transport.sums()) return by_messages_.begin(port, row, ctx);
    const bool mine = row.weight > 0 && row.refused == errc{};
    if (!mine) {
      std::fill(row.values.begin(), row.values.end(), 0.0F);
    } else if (row.weight != 1.0F) {
      kernels::scale(ctx.pool, row.values.data(), row.weight, static_cast<std::int64_t>(row.values.size()));
    }
    std::fill(row.residual.begin(), row.residual.end(), 0.0F);
    own_ = std::make_unique<under_way>();
    own_->total = row.refused != errc{} ? std::numeric_limits<float>::quiet_NaN() : row.weight;
    own_->row = {port.transport, port.transport.sum(row.values)};
    own_->weights = {port.transport, port.transport.sum({&own_->total, 1})};
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    if (!own_) return by_messages_.turn(port, row, ctx);
    (void)own_->row.done();  // a look, in which it moves
    return {};
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    if (!own_) return by_messages_.finish(port, row, ctx);
    const std::unique_ptr<under_way> ended = std::move(own_);
    const auto summed = ended->row.wait(port.options.deadline);
    const auto weighed = ended->weights.wait(port.options.deadline);
    if (!summed) return summed.error();
    if (!weighed) return weighed.error();
    const std::uint32_t peers = port.transport.size();
    if (!finite_values({&ended->total, 1}) || !finite_values(row.values)) return to_error({peers, errc::non_finite}, peers);
    const float factor = detail::mean_factor(static_cast<double>(ended->total));
    if (factor == 0) return to_error({peers, errc::invalid_argument}, peers);
    kernels::scale(ctx.pool, row.values.data(), factor, static_cast<std::int64_t>(row.values.size()));
    return {};
  }

  void cancel() {
    by_messages_.cancel();
    own_.reset();
  }

 private:
  /// Stays where it is when the exchange moves: the transport adds to it.
  struct under_way {
    float total = 0;
    net::scoped_operation weights;
    net::scoped_operation row;
  };

  Messages by_messages_;
  std::unique_ptr<under_way> own_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_OWN_SUM_MEAN_HPP

// ---- causeway/collective/pairs.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_PAIRS_HPP
#define CAUSEWAY_COLLECTIVE_PAIRS_HPP

// Peers two by two: who meets whom, and the mean of what the two hold.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The partner of `self` when `peers` are paired at random; none for the one left over of an odd number. Peers that `draw`
/// alike get the same pairs. Cost: O(peers).
CAUSEWAY_DECL [[nodiscard]] std::optional<net::peer_index> partner_of(net::peer_index self, std::uint32_t peers, rng draw);

/// Both peers: data ← (theirs + ours) / 2; both must call it with the same `id`. `received` has the length of `data` and is
/// overwritten. Bytes: 4 per value each way. errc::protocol where the other sends another number of values.
CAUSEWAY_DECL result<void> average_pair(net::any_transport& transport, net::peer_index other, const net::message_id& id,
                                        std::span<float> data, std::span<float> received, time_point deadline);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_PAIRS_HPP

// ---- causeway/collective/impl/pairs.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_PAIRS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_PAIRS_IPP

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::optional<net::peer_index> partner_of(net::peer_index self, std::uint32_t peers, rng draw) {
  std::vector<net::peer_index> order(peers);
  std::iota(order.begin(), order.end(), 0U);
  shuffle(order, draw);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    if (order[i] == self) return order[i + 1];
    if (order[i + 1] == self) return order[i];
  }
  return std::nullopt;
}

CAUSEWAY_DECL result<void> average_pair(net::any_transport& transport, net::peer_index other, const net::message_id& id,
                                        std::span<float> data, std::span<float> received, time_point deadline) {
  const auto inward = transport.receive(other, id, std::as_writable_bytes(received));
  const auto outward = transport.send(other, id, std::as_bytes(data));
  const auto sent = transport.wait(outward, deadline);
  const auto got = transport.wait(inward, deadline);
  if (!sent) return sent.error();
  if (!got) return got.error();
  if (*got != data.size_bytes()) {
    return fail(errc::protocol, "peer " + std::to_string(other),
                "sent parameters of another size; check that it trains the same model");
  }
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = 0.5F * (data[i] + received[i]);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_PAIRS_IPP
#endif

// ---- causeway/collective/quantised_ring.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_QUANTISED_RING_HPP
#define CAUSEWAY_COLLECTIVE_QUANTISED_RING_HPP

// All-reduce around a ring with encoded bytes on every hop, as PRIME does it with 8 bits: a partial sum is encoded, the
// next peer decodes it, adds its own values in f32 and encodes the sum anew. The peer that completes a segment divides it
// and encodes it once more; those bytes go round as they are, and all peers, that one too, take what they decode to: the
// same bits everywhere. A segment travels as two chunks, so that one is on its way while the other is worked on.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Models Exchange. `turn` takes the sums around the ring (n-1 hops), `finish` the means (n-1 hops). A peer sends
/// 2 (n-1)/n of a row in encoded form, and 16 bytes for each of its 4 (n-1) messages, to its right neighbour only. Partial
/// sums are encoded n-1 times on their way, so the loss grows with the number of peers, where split_mean encodes each
/// contribution once; there is no own message, hence no residual. Memory: 8 chunks of 1/2n of a row in encoded form.
///
/// The ring is that of the peers' indices: give the port a group_view to have another order (see ring_order).
template <class Codec>
class quantised_ring {
  static_assert(!Codec::traits.sparse && !Codec::traits.transform, "partial sums need all coordinates, as values");

 public:
  static constexpr std::string_view name = "quantised_ring";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = false, .counts = false, .stateful = false};

  explicit quantised_ring(Codec codec = Codec{}) : codec_{std::move(codec)} {}

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row, const X& ctx) requires MessageCodec<Codec, X> {
    CAUSEWAY_EXPECT(row.weight >= 0 && row.residual.empty() && row.counts.empty());
    self_ = port.transport.self();
    peers_ = port.transport.size();
    talk_.open(port, places);
    lay_out(row.values.size(), ctx);
    bad_.reset();
    if (hops() == 0) return {};
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) expect(0, chunk);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      encode_sum(0, chunk, row, ctx, peer_message{});
      send(0, chunk);
    }
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    for (std::size_t hop = 0; hop < hops() / 2; ++hop) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) CAUSEWAY_TRY(pass_sum(port, hop, chunk, row, ctx));
    }
    return {};
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (peers_ == 1) return finish_alone(row, ctx);
    for (std::size_t hop = hops() / 2; hop < hops(); ++hop) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) CAUSEWAY_TRY(pass_mean(port, hop, chunk, row, ctx));
    }
    for (std::size_t place = 0; place < places; ++place) CAUSEWAY_TRY(talk_.finish(place, right(), port.options.deadline));
    talk_.close();
    if (bad_) return to_error(*bad_, peers_);
    return {};
  }

  void cancel() { talk_.close(); }

 private:
  static constexpr std::size_t chunks = 2;
  static constexpr std::size_t depth = 2;  // hops whose bytes are kept: those that arrive, and those that leave
  enum kind : std::size_t { out, in, kinds };
  static constexpr std::size_t places = kinds * depth * chunks;

  [[nodiscard]] net::peer_index right() const { return (self_ + 1) % peers_; }
  [[nodiscard]] net::peer_index left() const { return (self_ + peers_ - 1) % peers_; }
  [[nodiscard]] std::size_t hops() const { return 2 * (std::size_t{peers_} - 1); }

  // --- which values, which bytes ------------------------------------------------------------------------------------

  /// Where chunk `chunk` of what this peer sends at `hop` lies in the row; at hop + 1 it sends what it received at hop.
  [[nodiscard]] index_range range(std::size_t hop, std::size_t chunk) const {
    const std::size_t segment = (self_ + 2 * std::size_t{peers_} - hop % peers_) % peers_;
    return share_of(static_cast<std::int64_t>(count_), static_cast<unsigned>(segment * chunks + chunk),
                    static_cast<unsigned>(peers_ * chunks), static_cast<std::int64_t>(detail::block_of(codec_)));
  }
  [[nodiscard]] std::span<float> values(std::span<float> row, const index_range& r) const {
    return row.subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.size()));
  }

  /// f(context of a chunk of the row): the same on all peers.
  template <class X, class F>
  decltype(auto) with_chunk(const X& ctx, const index_range& r, F&& f) const {
    detail::matrix_list<X> matrices;
    const auto begin = static_cast<std::size_t>(r.begin);
    return f(detail::context_of_part(ctx, begin, begin, static_cast<std::size_t>(r.end), matrices));
  }

  [[nodiscard]] std::size_t place(kind what, std::size_t hop, std::size_t chunk) const {
    return (what * depth + hop % depth) * chunks + chunk;
  }
  [[nodiscard]] std::span<std::byte> slot(kind what, std::size_t hop, std::size_t chunk) {
    return {memory_.data() + place(what, hop, chunk) * slot_, slot_};
  }
  [[nodiscard]] std::size_t& size_of_out(std::size_t hop, std::size_t chunk) {
    return sizes_[hop % depth * chunks + chunk];
  }

  template <class X>
  void lay_out(std::size_t count, const X& ctx) {
    count_ = count;
    slot_ = largest_ = 0;
    for (std::size_t hop = 0; hop < peers_; ++hop) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const index_range r = range(hop, chunk);
        largest_ = std::max(largest_, static_cast<std::size_t>(r.size()));
        const std::size_t most =
            with_chunk(ctx, r, [&](const X& part) { return codec_.most_bytes(part, static_cast<std::size_t>(r.size())); });
        slot_ = std::max(slot_, detail::message_slot(most));
      }
    }
    if (memory_.size() < places * slot_) memory_ = aligned_buffer<std::byte>{places * slot_};
    if (sum_.size() < largest_) sum_ = aligned_buffer<float>{largest_};
  }

  // --- messages -----------------------------------------------------------------------------------------------------

  void expect(std::size_t hop, std::size_t chunk) {
    talk_.receive(place(in, hop, chunk), left(), part{0, hop * chunks + chunk}, slot(in, hop, chunk));
  }
  void send(std::size_t hop, std::size_t chunk) {
    const std::span<const std::byte> message = slot(out, hop, chunk).first(size_of_out(hop, chunk));
    talk_.send(place(out, hop, chunk), right(), part{0, hop * chunks + chunk}, message);
  }

  /// What the left neighbour sent at `hop`; the next is asked for, and the room for what we send next is free.
  result<peer_message> take(const exchange_port& port, std::size_t hop, std::size_t chunk) {
    const time_point deadline = port.options.deadline;
    if (hop + 1 < hops()) expect(hop + 1, chunk);
    CAUSEWAY_ASSIGN(const std::size_t moved, talk_.wait(place(in, hop, chunk), left(), deadline));
    CAUSEWAY_TRY(talk_.finish(place(out, hop + 1, chunk), right(), deadline));
    const auto size = static_cast<std::size_t>(range(hop + 1, chunk).size());
    peer_message m = detail::read_message(left(), slot(in, hop, chunk).first(moved), size, peers_);
    if (m.bad) note(bad_, *m.bad);
    return m;
  }

  result<void> pass_sum(const exchange_port& port, std::size_t hop, std::size_t chunk, const exchange_row& row,
                        const auto& ctx) {
    CAUSEWAY_ASSIGN(const peer_message m, take(port, hop, chunk));
    encode_sum(hop + 1, chunk, row, ctx, m);
    send(hop + 1, chunk);
    return {};
  }

  /// Writes what this peer sends at `hop`: `so_far` and its own values; their mean, when they are the last ones.
  template <class X>
  void encode_sum(std::size_t hop, std::size_t chunk, const exchange_row& row, const X& ctx, const peer_message& so_far) {
    const index_range r = range(hop, chunk);
    const auto size = static_cast<std::size_t>(r.size());
    const std::span<std::byte> room = slot(out, hop, chunk);
    std::optional<refusal> bad = so_far.bad;
    const bool complete = hop + 1 == peers_;
    float weight = so_far.weight + row.weight;
    std::size_t used = 0;
    with_chunk(ctx, r, [&](const X& part) {
      if (!bad && row.refused != errc{}) bad = refusal{self_, row.refused};
      if (!bad) bad = add_up(part, values(row.values, r), row.weight, so_far);
      if (!bad && complete) bad = divide(part, size, weight);
      if (complete) weight = 1;
      if (bad) note(bad_, *bad);
      if (!bad && weight > 0) used = codec_.encode(part, {sum_.data(), size}, room.subspan(message_header_bytes));
      if (used > 0 && !detail::is_finite(codec_, part, room.subspan(message_header_bytes, used), {sum_.data(), size})) {
        bad = refusal{peers_, errc::non_finite};
        used = 0;
        note(bad_, *bad);
      }
    });
    detail::write_header(room, bad ? 0.0F : weight, size, bad.value_or(detail::no_refusal));
    size_of_out(hop, chunk) = message_header_bytes + used;
  }

  /// sum_ = own values times their weight, and what came before.
  std::optional<refusal> add_up(const auto& part, std::span<const float> own, float weight, const peer_message& so_far) {
    const std::span<float> sum{sum_.data(), own.size()};
    if (!detail::weighted(part.pool, own, weight, sum)) return refusal{self_, errc::non_finite};
    if (so_far.weight == 0) return std::nullopt;
    const auto added = codec_.decode_add(part, so_far.bytes, sum, 1.0F, {});
    if (added) return std::nullopt;
    return refusal{so_far.peer, added.error().code};
  }

  std::optional<refusal> divide(const auto& part, std::size_t size, float weight) {
    const float factor = detail::mean_factor(double{weight});
    if (factor == 0) return refusal{peers_, errc::invalid_argument};
    if (!detail::scale_finite(part.pool, {sum_.data(), size}, factor)) return refusal{peers_, errc::non_finite};
    return std::nullopt;
  }

  /// Takes a mean, and passes its bytes on. The own one is adopted when the first one arrives: it has left by then.
  result<void> pass_mean(const exchange_port& port, std::size_t hop, std::size_t chunk, const exchange_row& row,
                         const auto& ctx) {
    if (hop == hops() / 2) {
      const index_range r = range(hop, chunk);
      const auto own = slot(out, hop, chunk).first(size_of_out(hop, chunk));
      adopt(detail::read_message(self_, own, static_cast<std::size_t>(r.size()), peers_), r, row, ctx);
    }
    CAUSEWAY_ASSIGN(const peer_message m, take(port, hop, chunk));
    if (hop + 1 < hops()) {
      const std::size_t size = m.bad ? message_header_bytes : message_header_bytes + m.bytes.size();
      const std::span<std::byte> next = slot(out, hop + 1, chunk);
      std::memcpy(next.data(), slot(in, hop, chunk).data(), size);
      if (m.bad)
        detail::write_header(next, 0, static_cast<std::size_t>(range(hop + 1, chunk).size()),
                             m.bad.value_or(detail::no_refusal));
      size_of_out(hop + 1, chunk) = size;
      send(hop + 1, chunk);
    }
    adopt(m, range(hop + 1, chunk), row, ctx);
    return {};
  }

  template <class X>
  void adopt(const peer_message& m, const index_range& r, const exchange_row& row, const X& ctx) {
    if (m.bad) return;
    with_chunk(ctx, r, [&](const X& part) {
      if (const auto bad = detail::adopt_message(codec_, part, m, values(row.values, r))) note(bad_, *bad);
    });
  }

  result<void> finish_alone(const exchange_row& row, const auto& ctx) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      encode_sum(0, chunk, row, ctx, peer_message{});
      const index_range r = range(0, chunk);
      const auto own = slot(out, 0, chunk).first(size_of_out(0, chunk));
      adopt(detail::read_message(self_, own, static_cast<std::size_t>(r.size()), peers_), r, row, ctx);
    }
    talk_.close();
    if (bad_) return to_error(*bad_, peers_);
    return {};
  }

  Codec codec_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::size_t count_ = 0;
  std::size_t largest_ = 0;  // values of a chunk
  std::size_t slot_ = 0;
  std::size_t sizes_[depth * chunks] = {};  // of what leaves
  std::optional<refusal> bad_;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> sum_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_QUANTISED_RING_HPP

// ---- causeway/collective/relay_paths.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_RELAY_PATHS_HPP
#define CAUSEWAY_COLLECTIVE_RELAY_PATHS_HPP

// Ways from one peer to another through third ones, which pass on what they get as it is, and how many messages go by each
// (NETSTORM's auxiliary paths, 2024). Every peer works the paths out from the same costs and gets the same ones; how much
// goes by each is its sender's to say, who alone knows what waits for its lines.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The peers in between, in the order in which they pass a message on.
using relay_path = std::vector<net::peer_index>;

/// At most `most` ways from `from` to `to` besides the direct one, the fastest first: each is the fastest through peers
/// that are on none before it. What a path costs is the sum of its links, each in its own direction; without `costs` each
/// is 1. Of equal ones that with fewer peers in between, then by index counted from `from`. None costs more than `limit`,
/// or leads over a link that is not there (of infinite cost). Time: O(most · peers²).
CAUSEWAY_DECL [[nodiscard]] std::vector<relay_path> relay_paths(const link_costs& links, net::peer_index from,
                                                                net::peer_index to, std::size_t most, double limit);

/// How many of `messages` go directly, and how many by each auxiliary path, where so many are handed over to these lines
/// already and not out: to the direct one, then to the beginning of each path. On each line one is on its way; the others
/// wait. One after another goes directly, unless more than 2 · `limit` wait there: then by the first path with fewer than
/// `limit` waiting at its beginning, if there is one. The first of all goes directly in any case. Each counts where it
/// went: they are handed over faster than any line takes them. So a path gets at most `limit` + 1; with a limit of 0, none.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> messages_by_path(std::size_t messages, std::size_t limit,
                                                                      std::vector<std::size_t> handed_over);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_RELAY_PATHS_HPP

// ---- causeway/collective/impl/relay_paths.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_RELAY_PATHS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_RELAY_PATHS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// Fastest paths between two peers through fewer and fewer others (Dijkstra 1959, without a heap: all peers are
/// neighbours).
class path_search {
 public:
  path_search(const link_costs& links, net::peer_index from, net::peer_index to)
      : links_{links}, from_{from}, to_{to}, taken_(links.peers, false) {}

  /// The peers in between on the next one, which no later one goes through; none where no path costs at most `limit`.
  relay_path next(double limit) {
    spread();
    relay_path between;
    if (found_[to_].cost == unreached || found_[to_].cost > limit) return between;
    for (net::peer_index p = found_[to_].before; p != from_; p = found_[p].before) between.push_back(p);
    for (const net::peer_index p : between) taken_[p] = true;
    std::reverse(between.begin(), between.end());
    return between;
  }

 private:
  static constexpr double unreached = std::numeric_limits<double>::infinity();

  struct reached {
    double cost = unreached;
    std::uint32_t hops = 0;
    net::peer_index before = 0;
    bool settled = false;
  };

  [[nodiscard]] double cost(net::peer_index a, net::peer_index b) const {
    if (a == from_ && b == to_) return unreached;  // the direct one is another's
    return links_.costs.empty() ? 1 : links_(a, b);
  }
  [[nodiscard]] static bool is_sooner(const reached& a, const reached& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.hops < b.hops;
  }

  void spread() {
    found_.assign(links_.peers, {});
    found_[from_].cost = 0;
    for (std::uint32_t round = 0; round < links_.peers; ++round) {
      const net::peer_index at = nearest();
      if (found_[at].settled || found_[at].cost == unreached || at == to_) return;
      found_[at].settled = true;
      for (std::uint32_t i = 0; i < links_.peers; ++i) {
        if (found_[i].settled || taken_[i]) continue;
        const reached by_it{found_[at].cost + cost(at, i), found_[at].hops + 1, at, false};
        if (is_sooner(by_it, found_[i])) found_[i] = by_it;
      }
    }
  }
  /// The first of the nearest that are not settled, by index counted from `from`.
  [[nodiscard]] net::peer_index nearest() const {
    net::peer_index best = from_;
    bool found = false;
    for (std::uint32_t i = 0; i < links_.peers; ++i) {
      const net::peer_index p = (from_ + i) % links_.peers;
      if (found_[p].settled || (found && !is_sooner(found_[p], found_[best]))) continue;
      best = p;
      found = true;
    }
    return best;
  }

  const link_costs& links_;
  net::peer_index from_, to_;
  std::vector<bool> taken_;
  std::vector<reached> found_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<relay_path> relay_paths(const link_costs& links, net::peer_index from, net::peer_index to,
                                                  std::size_t most, double limit) {
  CAUSEWAY_EXPECT(from < links.peers && to < links.peers && from != to);
  detail::path_search search{links, from, to};
  std::vector<relay_path> paths;
  while (paths.size() < most) {
    paths.push_back(search.next(limit));
    if (!paths.back().empty()) continue;
    paths.pop_back();
    break;
  }
  return paths;
}

CAUSEWAY_DECL std::vector<std::size_t> messages_by_path(std::size_t messages, std::size_t limit,
                                                        std::vector<std::size_t> handed_over) {
  CAUSEWAY_EXPECT(!handed_over.empty());
  const auto waiting = [](std::size_t on_line) { return on_line == 0 ? 0 : on_line - 1; };
  std::vector<std::size_t> sent(handed_over.size(), 0);
  for (std::size_t m = 0; m < messages; ++m) {
    std::size_t by = 0;
    if (m > 0 && waiting(handed_over[0]) > 2 * limit) {
      const auto free = std::find_if(handed_over.begin() + 1, handed_over.end(),
                                     [&](std::size_t on_line) { return waiting(on_line) < limit; });
      if (free != handed_over.end()) by = static_cast<std::size_t>(free - handed_over.begin());
    }
    ++sent[by];
    ++handed_over[by];
  }
  return sent;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_RELAY_PATHS_IPP
#endif

// ---- causeway/collective/server_residual.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SERVER_RESIDUAL_HPP
#define CAUSEWAY_COLLECTIVE_SERVER_RESIDUAL_HPP

// What the owner of a part lost when it encoded the part's mean, to be added to the next mean: the second half of double
// error feedback (Tang et al. 2019, DoubleSqueeze; CocktailSGD). A round that is tried again must start from the residual
// of the round before, so the new one counts only once a later round begins.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Of one part of one row. Memory: twice the part. The part may change from round to round: what is known of it stays.
class server_residual {
 public:
  /// A try at round `step` begins.
  CAUSEWAY_DECL void begin(std::uint64_t step);

  /// mean += residual, for the values of the row from `begin` on.
  CAUSEWAY_DECL void add_to(std::size_t begin, std::span<float> mean) const;

  /// Where the residual of this try is to be written.
  CAUSEWAY_DECL [[nodiscard]] std::span<float> next(std::size_t begin, std::size_t size);

  /// The try went through.
  void finish() noexcept { finished_ = true; }

  void serialize(auto& ar) { ar(kept_.begin, kept_.values, next_.begin, next_.values, step_, finished_); }

 private:
  struct piece {
    std::uint64_t begin = 0;
    std::vector<float> values;
  };

  piece kept_;
  piece next_;
  std::uint64_t step_ = 0;
  bool finished_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SERVER_RESIDUAL_HPP

// ---- causeway/collective/impl/server_residual.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SERVER_RESIDUAL_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SERVER_RESIDUAL_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL void server_residual::begin(std::uint64_t step) {
  if (finished_ && step != step_) kept_ = std::exchange(next_, {});
  finished_ = false;
  step_ = step;
}

CAUSEWAY_DECL void server_residual::add_to(std::size_t begin, std::span<float> mean) const {
  const std::size_t first = std::max(begin, kept_.begin);
  const std::size_t last = std::min(begin + mean.size(), kept_.begin + kept_.values.size());
  for (std::size_t i = first; i < last; ++i) mean[i - begin] += kept_.values[i - kept_.begin];
}

CAUSEWAY_DECL std::span<float> server_residual::next(std::size_t begin, std::size_t size) {
  next_.begin = begin;
  next_.values.resize(size);
  return next_.values;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SERVER_RESIDUAL_IPP
#endif

// ---- causeway/collective/shared_sum.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SHARED_SUM_HPP
#define CAUSEWAY_COLLECTIVE_SHARED_SUM_HPP

// Sums of processes of one host in memory that they share. Each writes its values there once, adds all of its own part of
// them in the order of the ranks, and reads the whole sum: no message, and no value is copied twice in a row.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// How many pieces a rank has written, added its part of, and read; each on a line of its own, as the others look at it.
struct sum_progress {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> added{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock would be one process's own");

/// Where memory is that one process has made and others of its host may open: under /proc, with a mark at its end so that
/// no other memory is taken for it.
struct shared_place {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t mark = 0;
};

/// All ranks make equal sums in the same order, one at a time. One thread. Memory: 2 (n+1) pieces for all n together.
class shared_sum {
 public:
  static constexpr std::size_t piece = std::size_t{128} << 10U;  ///< bytes: those of all ranks stay in the caches
  static constexpr std::uint32_t most_ranks = 64;

  /// Memory that the first rank makes, and the others join while the first one has it. It ends with the last who has it.
  /// errc::out_of_memory: the host has no room for it. errc::io_failed: it is not to be had from here, on another host or
  /// in a container apart.
  CAUSEWAY_DECL [[nodiscard]] static result<std::unique_ptr<shared_sum>> make(std::uint32_t ranks, shared_place& place);
  CAUSEWAY_DECL [[nodiscard]] static result<std::unique_ptr<shared_sum>> join(std::uint32_t rank, std::uint32_t ranks,
                                                                              const shared_place& place);

  /// In `length(ranks)` bytes, all zero when the first rank comes.
  CAUSEWAY_DECL shared_sum(net::detail::shared_pages pages, std::uint32_t rank, std::uint32_t ranks);
  [[nodiscard]] static constexpr std::size_t length(std::uint32_t ranks) noexcept {
    return ranks * sizeof(sum_progress) + 2 * (ranks + std::size_t{1}) * piece;
  }

  /// data[i] = factor · Σ data[i] of all ranks, once `look` has said so. What is not finite stays so.
  CAUSEWAY_DECL void begin(std::span<float> data, float factor);
  /// Goes on as far as the others are; whether the sum is there. `moved`: whether anything was done.
  CAUSEWAY_DECL bool look(thread_pool& pool, bool& moved);
  [[nodiscard]] bool under_way() const noexcept { return !data_.empty(); }

 private:
  static constexpr std::size_t piece_values = piece / sizeof(float);
  /// Of all ranks together: up to here each adds everything by itself, and waits for the others once, not twice.
  static constexpr std::size_t most_by_each = std::size_t{128} << 10U;

  [[nodiscard]] float* slot(std::uint64_t number, std::uint32_t of) const noexcept {
    return slots_ + ((number % 2) * (ranks_ + std::size_t{1}) + of) * piece_values;
  }
  [[nodiscard]] float* sum_of(std::uint64_t number) const noexcept { return slot(number, ranks_); }
  [[nodiscard]] std::span<float> values_of(std::uint64_t number) const noexcept {
    const std::size_t at = static_cast<std::size_t>(number - first_) * piece_values;
    return data_.subspan(at, std::min(piece_values, data_.size() - at));
  }
  /// Whether all ranks are so far.
  CAUSEWAY_DECL bool all(std::atomic<std::uint64_t> sum_progress::*what, std::uint64_t number) const noexcept;
  CAUSEWAY_DECL bool write();
  CAUSEWAY_DECL bool add(thread_pool& pool);
  CAUSEWAY_DECL bool read();
  CAUSEWAY_DECL void add_range(thread_pool& pool, std::uint64_t number, std::size_t begin, std::size_t end,
                               float* to) const;

  net::detail::shared_pages pages_;
  sum_progress* progress_;
  float* slots_;
  std::uint32_t rank_, ranks_;
  std::span<float> data_{};
  float factor_ = 1.0F;
  bool by_each_ = false;
  std::uint64_t first_ = 0, end_ = 0;                 ///< the pieces of the sum under way, counted over all sums
  std::uint64_t written_ = 0, added_ = 0, read_ = 0;  ///< this rank's own
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_SHARED_SUM_HPP

// ---- causeway/collective/impl/shared_sum.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SHARED_SUM_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SHARED_SUM_IPP

#include <fcntl.h>
#include <sys/random.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL result<std::unique_ptr<shared_sum>> shared_sum::make(std::uint32_t ranks, shared_place& place) {
  const std::size_t bytes = length(ranks) + sizeof place.mark;
  CAUSEWAY_ASSIGN(net::detail::shared_pages pages, net::detail::shared_pages::make(bytes));
  place = {.process = ::getpid(), .descriptor = pages.descriptor().get()};
  if (::getrandom(&place.mark, sizeof place.mark, 0) != sizeof place.mark) {
    return fail(errc::io_failed, "shared memory", "this system gives no random numbers");
  }
  std::memcpy(pages.base() + length(ranks), &place.mark, sizeof place.mark);
  return std::make_unique<shared_sum>(std::move(pages), 0, ranks);
}

CAUSEWAY_DECL result<std::unique_ptr<shared_sum>> shared_sum::join(std::uint32_t rank, std::uint32_t ranks,
                                                                   const shared_place& place) {
  const std::size_t bytes = length(ranks) + sizeof place.mark;
  const std::string path = "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.descriptor);
  owned_descriptor d{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  const bool fits = d.get() >= 0 && ::lseek(d.get(), 0, SEEK_END) == static_cast<off_t>(bytes);
  if (!fits) return fail(errc::io_failed, "shared memory", "the ranks have none in common");
  CAUSEWAY_ASSIGN(net::detail::shared_pages pages, net::detail::shared_pages::map(std::move(d), bytes));
  std::uint64_t mark = 0;
  std::memcpy(&mark, pages.base() + length(ranks), sizeof mark);
  if (mark != place.mark) return fail(errc::io_failed, "shared memory", "belongs to another job");
  pages.close_descriptor();
  return std::make_unique<shared_sum>(std::move(pages), rank, ranks);
}

CAUSEWAY_DECL shared_sum::shared_sum(net::detail::shared_pages pages, std::uint32_t rank, std::uint32_t ranks)
    : pages_{std::move(pages)},
      progress_{reinterpret_cast<sum_progress*>(pages_.base())},
      slots_{reinterpret_cast<float*>(pages_.base() + ranks * sizeof(sum_progress))},
      rank_{rank},
      ranks_{ranks} {}

CAUSEWAY_DECL void shared_sum::begin(std::span<float> data, float factor) {
  CAUSEWAY_EXPECT(!under_way());
  data_ = data;
  factor_ = factor;
  by_each_ = data.size_bytes() * ranks_ <= most_by_each;
  first_ = end_;
  end_ = first_ + (data.size() + piece_values - 1) / piece_values;
  (void)write();
}

CAUSEWAY_DECL bool shared_sum::all(std::atomic<std::uint64_t> sum_progress::*what, std::uint64_t number) const noexcept {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if ((progress_[r].*what).load(std::memory_order_acquire) < number) return false;
  }
  return true;
}

/// Where the piece before the last one was, which all must have read.
CAUSEWAY_DECL bool shared_sum::write() {
  if (written_ == end_ || (written_ >= 2 && !all(&sum_progress::read, written_ - 1))) return false;
  const std::span<float> values = values_of(written_);
  std::memcpy(slot(written_, rank_), values.data(), values.size_bytes());
  progress_[rank_].written.store(++written_, std::memory_order_release);
  return true;
}

CAUSEWAY_DECL void shared_sum::add_range(thread_pool& pool, std::uint64_t number, std::size_t begin, std::size_t end,
                                         float* to) const {
  const float* terms[most_ranks];
  for (std::uint32_t r = 0; r < ranks_; ++r) terms[r] = slot(number, r) + begin;
  const std::span<const float* const> parts{terms, ranks_};
  if (sum_parts(pool, parts, factor_, to + begin, static_cast<std::int64_t>(end - begin))) return;
  for (std::size_t i = 0; i < end - begin; ++i) {  // it stores no block that is not finite
    float sum = terms[0][i];
    for (std::uint32_t r = 1; r < ranks_; ++r) sum += terms[r][i];
    to[begin + i] = factor_ * sum;
  }
}

CAUSEWAY_DECL bool shared_sum::add(thread_pool& pool) {
  if (added_ == written_ || !all(&sum_progress::written, added_ + 1)) return false;
  const std::span<float> values = values_of(added_);
  if (by_each_) {
    add_range(pool, added_, 0, values.size(), values.data());
  } else {
    const auto part = [&](std::size_t rank) {
      return rank == ranks_ ? values.size() : values.size() * rank / ranks_ / 16 * 16;
    };
    add_range(pool, added_, part(rank_), part(rank_ + std::size_t{1}), sum_of(added_));  // whole lines of memory
  }
  progress_[rank_].added.store(++added_, std::memory_order_release);
  return true;
}

CAUSEWAY_DECL bool shared_sum::read() {
  if (read_ == added_ || (!by_each_ && !all(&sum_progress::added, read_ + 1))) return false;
  const std::span<float> values = values_of(read_);
  if (!by_each_) std::memcpy(values.data(), sum_of(read_), values.size_bytes());
  progress_[rank_].read.store(++read_, std::memory_order_release);
  return true;
}

CAUSEWAY_DECL bool shared_sum::look(thread_pool& pool, bool& moved) {
  for (bool more = true; more;) {
    more = write();
    more = add(pool) || more;
    more = read() || more;
    moved = moved || more;
  }
  if (read_ < end_) return false;
  data_ = {};
  return true;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SHARED_SUM_IPP
#endif

// ---- causeway/collective/shares.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SHARES_HPP
#define CAUSEWAY_COLLECTIVE_SHARES_HPP

// How much of a row each peer should reduce for the others, when their bandwidths differ (Diskin et al. 2021, DeDLOC; in
// the form of hivemind's load balancing). A peer that reduces the share w of n peers' rows sends its own row but for that
// share, and w times the row to the n-1 others: 1 + (n-2) w rows in all. The slowest peer sets the time:
//   minimise ξ  with  (1 + (n-2) w_i) / b_i <= ξ,  Σ w_i = 1,  w_i >= 0.
// Adding up the constraints of the k peers that reduce gives ξ >= (n-2+k) / Σ b_i, and each peer must send its row, so
// ξ >= 1 / b_i: the larger of the two is reached. No solver is needed.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// The best shares where only peers with `reduces[i]` may have one.
CAUSEWAY_DECL std::vector<double> best_shares(std::span<const double> bandwidths, const std::vector<bool>& reduces);

}  // namespace detail

/// w_i for peers of bandwidth b_i (any unit, >= 0, finite): adds up to 1, and the slowest peer is done as early as can be.
/// b_i = 0 marks a peer that only sends and receives its own; its w_i is 0. A peer whose share would be under
/// `smallest_share` (a message costs something, however short) gets none, and the others share what it would have had; the
/// last one keeps all. All zeros where all bandwidths are 0.
CAUSEWAY_DECL std::vector<double> bandwidth_shares(std::span<const double> bandwidths, double smallest_share = 0);

/// `total` things in whole numbers ∝ shares, by the quota of Hagenbach-Bischoff: everybody gets the whole part of its due;
/// each thing left over goes where share / (number so far + 1) is largest, the lowest index first. Shares are >= 0 and not
/// all 0; a share of 0 gets nothing. Adds up to `total`.
CAUSEWAY_DECL std::vector<std::size_t> whole_parts(std::size_t total, std::span<const double> shares);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SHARES_HPP

// ---- causeway/collective/impl/shares.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SHARES_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SHARES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL std::vector<double> best_shares(std::span<const double> bandwidths, const std::vector<bool>& reduces) {
  const double n = static_cast<double>(bandwidths.size());
  double xi = 0, sum = 0, count = 0;
  for (std::size_t i = 0; i < bandwidths.size(); ++i) {
    if (bandwidths[i] > 0) xi = std::max(xi, 1 / bandwidths[i]);
    if (reduces[i]) sum += bandwidths[i];
    if (reduces[i]) count += 1;
  }
  if (sum > 0) xi = std::max(xi, (n - 2 + count) / sum);
  // The most that each can take within ξ. With two peers (and one) the share costs nothing: equal ones.
  std::vector<double> shares(bandwidths.size());
  double total = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (reduces[i]) shares[i] = n > 2 ? std::max(0.0, xi * bandwidths[i] - 1) / (n - 2) : 1.0;
    total += shares[i];
  }
  for (double& w : shares) w = total > 0 ? w / total : 0;
  return shares;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<double> bandwidth_shares(std::span<const double> bandwidths, double smallest_share) {
  std::vector<bool> reduces(bandwidths.size());
  for (std::size_t i = 0; i < bandwidths.size(); ++i) reduces[i] = bandwidths[i] > 0;
  for (;;) {
    std::vector<double> shares = detail::best_shares(bandwidths, reduces);
    std::size_t smallest = shares.size();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (reduces[i] && (smallest == shares.size() || shares[i] < shares[smallest])) smallest = i;
    }
    const auto left = std::count(reduces.begin(), reduces.end(), true);
    if (left <= 1 || shares[smallest] >= smallest_share) return shares;
    reduces[smallest] = false;
  }
}

CAUSEWAY_DECL std::vector<std::size_t> whole_parts(std::size_t total, std::span<const double> shares) {
  double sum = 0;
  for (const double s : shares) sum += s;
  CAUSEWAY_EXPECT(sum > 0);
  std::vector<std::size_t> parts(shares.size());
  std::size_t given = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double due = static_cast<double>(total) * (shares[i] / sum);
    parts[i] = std::min(static_cast<std::size_t>(due), total - given);  // rounding must not give out more than there is
    given += parts[i];
  }
  for (; given < total; ++given) {
    std::size_t next = 0;
    const auto claim = [&](std::size_t i) { return shares[i] / static_cast<double>(parts[i] + 1); };
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (claim(i) > claim(next)) next = i;
    }
    ++parts[next];
  }
  return parts;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SHARES_IPP
#endif

// ---- causeway/collective/site.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SITE_HPP
#define CAUSEWAY_COLLECTIVE_SITE_HPP

// Peers that sit close together and talk often: the devices of a machine or of a rack. What connects them (NVLink through
// NCCL, the run's own network) is behind this interface, so that a policy is the same for all of them, and its tests need
// no device.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// All members call the same operations in the same order, with as many values. An operation returns when it is done here;
/// afterwards the values are everybody's, to the bit, unless it failed: then they are garbage, and a member that others
/// wait for may be gone. No operation waits for ever. One thread at a time.
class site {
 public:
  virtual ~site() = default;

  [[nodiscard]] virtual std::uint32_t size() const = 0;
  /// This member, 0 to size()-1.
  [[nodiscard]] virtual std::uint32_t rank() const = 0;

  /// data[i] = the mean over all members, in f32. NaN and infinity are an error or stay what they are.
  [[nodiscard]] virtual result<void> mean(std::span<float> data) = 0;
  /// data[i] = the sum over all members. Where nothing better is said, size() times the mean, which rounds once more unless
  /// size() is a power of two.
  [[nodiscard]] virtual result<void> sum(std::span<float> data) {
    CAUSEWAY_TRY(mean(data));
    for (float& v : data) v *= static_cast<float>(size());
    return {};
  }
  /// `data` of the member `from` replaces everybody's.
  [[nodiscard]] virtual result<void> broadcast(std::uint32_t from, std::span<float> data) = 0;
  /// Whether all members say yes.
  [[nodiscard]] virtual result<bool> all_of(bool mine) = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SITE_HPP

// ---- causeway/collective/split_mean.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SPLIT_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_SPLIT_MEAN_HPP

// Each peer owns a part of the row: it gets that part from everybody, averages, and sends the mean to everybody. Parts may
// differ in size: equal ones are the butterfly; one peer with everything is a parameter server, a few peers a sharded one,
// and peers without a part are its clients. A contribution is encoded once by its peer, a mean once by its owner, and all,
// the owner too, take what the bytes decode to: the same bits everywhere.

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct split_options {
  std::vector<double> shares{};  ///< how much each peer owns, in any unit; 0: a client. Empty: all the same
  bool server_residual = false;  ///< owners keep what encoding a mean loses, and add it to the next round's
};

/// Models Exchange. `turn` waits for the parts of this peer's share. With shares s_p that add up to 1, peer p sends
/// (1 - s_p) of a row encoded by UpCodec and (n-1) s_p of a row encoded by DownCodec, and 16 bytes more for each message; 2
/// latencies. Parts are cut at blocks of both codecs; each part is a row of its own for them. Memory: that of the messages.
///
/// The server residual makes it stateful: use one object for each row. A round is known by the step of its id: a second try
/// must have the same one.
template <class UpCodec, class DownCodec = UpCodec>
class split_mean {
 public:
  static constexpr std::string_view name = "split_mean";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = true, .residual = true, .counts = false, .stateful = true};

  explicit split_mean(split_options options = {}, UpCodec up = UpCodec{}, DownCodec down = DownCodec{})
      : options_{std::move(options)}, up_{std::move(up)}, down_{std::move(down)} {}

  [[nodiscard]] const split_options& options() const noexcept { return options_; }

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> {
    CAUSEWAY_EXPECT(row.counts.empty());
    self_ = port.transport.self();
    peers_ = port.transport.size();
    talk_.close();
    CAUSEWAY_TRY(cut(row.values.size()));
    talk_.open(port, kinds * peers_);
    residual_.begin(port.id.step);
    lay_out(ctx);
    expect();
    for (std::uint32_t i = 0; i < peers_; ++i) send_part((self_ + i) % peers_, row, ctx);
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row&, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (size_of(self_) == 0) return {};
    std::optional<refusal> bad;
    messages_.clear();
    for (net::peer_index p = 0; p < peers_; ++p) {
      std::size_t moved = own_bytes_;
      if (p != self_) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(place(part_in, p), p, port.options.deadline));
      }
      messages_.push_back(
          detail::read_message(p, slot(p == self_ ? part_out : part_in, p).first(moved), size_of(self_), peers_));
      if (messages_.back().bad) note(bad, detail::refused_contribution(p, *messages_.back().bad));
    }
    const std::span<const std::byte> result = reduce(port, ctx, bad);
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index to = (self_ + i) % peers_;
      talk_.send(place(result_out, to), to, part{1}, result);
    }
    return {};
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    const time_point deadline = port.options.deadline;
    // First the own sends: one that failed would never be answered.
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(part_out, p), p, deadline));
    std::optional<refusal> bad;
    messages_.clear();
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (size_of(p) == 0) continue;
      std::size_t moved = result_bytes_;
      if (p != self_) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(place(result_in, p), p, deadline));
      }
      messages_.push_back(detail::read_message(p, slot(result_in, p).first(moved), size_of(p), peers_));
      if (messages_.back().bad) note(bad, *messages_.back().bad);
    }
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(result_out, p), p, deadline));
    talk_.close();
    if (!bad) bad = adopt(row, ctx);
    if (bad) return to_error(*bad, peers_);
    residual_.finish();
    return {};
  }

  /// What owners keep from round to round.
  void serialize(auto& ar) { ar(residual_); }

  void cancel() { talk_.close(); }

 private:
  enum kind : std::size_t { part_out, part_in, result_in, result_out, kinds };

  // --- what belongs to whom ---------------------------------------------------------------------------------------------

  result<void> cut(std::size_t count) {
    const std::vector<double> equal(options_.shares.empty() ? peers_ : 0, 1.0);
    const std::span<const double> shares = options_.shares.empty() ? equal : options_.shares;
    if (shares.size() != peers_) {
      return fail(errc::invalid_argument, "split_mean",
                  std::to_string(shares.size()) + " shares for " + std::to_string(peers_) + " peers");
    }
    double total = 0;
    for (const double s : shares) total += s >= 0 ? s : std::nan("");
    if (!(total > 0) || !std::isfinite(total)) {
      return fail(errc::invalid_argument, "split_mean", "shares must be finite, not negative, and not all 0");
    }
    const std::size_t block = std::lcm(detail::block_of(up_), detail::block_of(down_));
    const std::vector<std::size_t> blocks = whole_parts((count + block - 1) / block, shares);
    cuts_.assign(1, 0);
    for (const std::size_t b : blocks) cuts_.push_back(std::min(cuts_.back() + b * block, count));
    return {};
  }
  [[nodiscard]] std::size_t size_of(net::peer_index owner) const { return cuts_[owner + 1] - cuts_[owner]; }
  [[nodiscard]] std::span<float> part_of(std::span<float> row, net::peer_index owner) const {
    return row.subspan(cuts_[owner], size_of(owner));
  }

  /// f(context of the owner's part).
  template <class X, class F>
  decltype(auto) with_part(const X& ctx, net::peer_index owner, F&& f) const {
    detail::matrix_list<X> matrices;
    return f(detail::context_of_part(ctx, owner, cuts_[owner], cuts_[owner + 1], matrices));
  }

  // --- places of operations, slots of bytes -------------------------------------------------------------------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> slot(kind what, net::peer_index p) {
    const std::size_t at = place(what, p);
    return {memory_.data() + slots_[at], slots_[at + 1] - slots_[at]};
  }

  template <class X>
  void lay_out(const X& ctx) {
    std::vector<std::size_t> up(peers_), down(peers_);
    for (net::peer_index p = 0; p < peers_; ++p) {
      if (size_of(p) == 0) continue;
      with_part(ctx, p, [&](const X& part) {
        up[p] = detail::message_slot(up_.most_bytes(part, size_of(p)));
        down[p] = detail::message_slot(down_.most_bytes(part, size_of(p)));
      });
    }
    slots_.assign(1, 0);
    for (net::peer_index p = 0; p < peers_; ++p) slots_.push_back(slots_.back() + up[p]);
    for (net::peer_index p = 0; p < peers_; ++p) slots_.push_back(slots_.back() + (p == self_ ? 0 : up[self_]));
    for (net::peer_index p = 0; p < peers_; ++p) slots_.push_back(slots_.back() + down[p]);
    if (memory_.size() < slots_.back()) memory_ = aligned_buffer<std::byte>{slots_.back()};
  }

  // --- phases -------------------------------------------------------------------------------------------------------

  void expect() {
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index p = (self_ + peers_ - i) % peers_;
      if (size_of(self_) > 0) talk_.receive(place(part_in, p), p, part{0}, slot(part_in, p));
      if (size_of(p) > 0) talk_.receive(place(result_in, p), p, part{1}, slot(result_in, p));
    }
  }

  /// Encodes what `owner` is to have, and sends it, but for the own part.
  template <class X>
  void send_part(net::peer_index owner, const exchange_row& row, const X& ctx) {
    if (size_of(owner) == 0) return;
    const std::span<std::byte> room = slot(part_out, owner);
    exchange_row own = row;
    own.values = part_of(row.values, owner);
    if (!row.residual.empty()) own.residual = part_of(row.residual, owner);
    const std::size_t bytes =
        with_part(ctx, owner, [&](const X& part) { return detail::write_contribution(up_, part, own, room, self_); });
    if (owner == self_) own_bytes_ = bytes;
    if (owner != self_) talk_.send(place(part_out, owner), owner, part{0}, room.first(bytes));
  }

  /// The message with the mean of the own part, or with the reason why there is none.
  template <class X>
  std::span<const std::byte> reduce(const exchange_port& port, const X& ctx, std::optional<refusal> bad) {
    const std::span<std::byte> room = slot(result_in, self_);
    result_bytes_ = message_header_bytes;
    if (!bad) {
      collective_workspace own;
      collective_workspace& workspace = port.options.workspace != nullptr ? *port.options.workspace : own;
      const std::size_t size = size_of(self_);
      const std::span<float> sum{reinterpret_cast<float*>(workspace.reserve(size * sizeof(float))), size};
      with_part(ctx, self_, [&](const X& part) {
        bad = add_up(part, sum);
        if (!bad) result_bytes_ += encode_mean(part, sum, room.subspan(message_header_bytes));
      });
    }
    detail::write_header(room, bad ? 0.0F : 1.0F, size_of(self_), bad.value_or(detail::no_refusal));
    return room.first(result_bytes_);
  }

  std::optional<refusal> add_up(const auto& part, std::span<float> sum) {
    kernels::zero(part.pool, sum.data(), static_cast<std::int64_t>(sum.size()));
    double total = 0;
    for (const peer_message& m : messages_) {
      if (m.weight == 0) continue;
      total += m.weight;
      if (auto added = up_.decode_add(part, m.bytes, sum, m.weight, {}); !added) return refusal{m.peer, added.error().code};
    }
    const float factor = detail::mean_factor(total);
    if (factor == 0) return refusal{peers_, errc::invalid_argument};
    if (!detail::scale_finite(part.pool, sum, factor)) return refusal{peers_, errc::non_finite};
    detail::invert(up_, part, sum);
    return std::nullopt;
  }

  std::size_t encode_mean(const auto& part, std::span<float> mean, std::span<std::byte> room) {
    if (!options_.server_residual) return down_.encode(part, mean, room);
    residual_.add_to(cuts_[self_], mean);
    return detail::encode_keeping(down_, part, mean, room, residual_.next(cuts_[self_], mean.size()));
  }

  template <class X>
  std::optional<refusal> adopt(const exchange_row& row, const X& ctx) {
    std::optional<refusal> bad;
    detail::clear(down_, ctx.pool, row.values);
    for (const peer_message& m : messages_) {
      const std::span<float> target = part_of(row.values, m.peer);
      with_part(ctx, m.peer, [&](const X& part) {
        const auto added = down_.decode_add(part, m.bytes, target, 1.0F, {});
        if (!added) note(bad, {m.peer, added.error().code});
        if (added) detail::invert(down_, part, target);
      });
    }
    return bad;
  }

  split_options options_;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::size_t own_bytes_ = 0;
  std::size_t result_bytes_ = 0;
  std::vector<std::size_t> cuts_;   // part p is [cuts_[p], cuts_[p + 1])
  std::vector<std::size_t> slots_;  // slot i is [slots_[i], slots_[i + 1])
  aligned_buffer<std::byte> memory_;
  std::vector<peer_message> messages_;
  server_residual residual_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SPLIT_MEAN_HPP

// ---- causeway/collective/transport_site.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP
#define CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP

// A site over the run's own network: for machines of a local network, for GPUs without NCCL, and for tests.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// The members talk on three channels from `id.channel` on, which nobody else of them uses. Sums are added in the order of
/// the members' ranks (collective_options::how), and NaN or infinity is errc::non_finite. Bytes sent by a member: of a mean
/// 2 (n-1)/n · 4 a value; of a broadcast at most 4 a value. `over` and the options' pool and workspace must outlive it.
class transport_site final : public site {
 public:
  /// `members[r]` is the peer of rank r, this one among them.
  CAUSEWAY_DECL transport_site(net::any_transport& over, std::vector<net::peer_index> members, const net::message_id& id,
                               const collective_options& options);

  [[nodiscard]] std::uint32_t size() const override { return group_.size(); }
  [[nodiscard]] std::uint32_t rank() const override { return group_.self(); }

  [[nodiscard]] CAUSEWAY_INLINE result<void> mean(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> sum(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> broadcast(std::uint32_t from, std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<bool> all_of(bool mine) override;

 private:
  /// A collective adds up to three phases to its channel.
  CAUSEWAY_DECL [[nodiscard]] net::message_id of_kind(std::uint32_t kind) const;

  group_view group_;
  net::message_id id_;
  collective_options options_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TRANSPORT_SITE_HPP

// ---- causeway/collective/impl/transport_site.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TRANSPORT_SITE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TRANSPORT_SITE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL transport_site::transport_site(net::any_transport& over, std::vector<net::peer_index> members,
                                             const net::message_id& id, const collective_options& options)
    : group_{over, std::move(members)}, id_{id}, options_{options} {}

CAUSEWAY_INLINE result<void> transport_site::mean(std::span<float> data) {
  return all_reduce_mean(group_, of_kind(0), data, options_);
}

CAUSEWAY_INLINE result<void> transport_site::sum(std::span<float> data) {
  return all_reduce_sum(group_, of_kind(0), data, options_);
}

CAUSEWAY_INLINE result<void> transport_site::broadcast(std::uint32_t from, std::span<float> data) {
  return collective::broadcast(group_, of_kind(1), from, data, options_);
}

CAUSEWAY_INLINE result<bool> transport_site::all_of(bool mine) {
  const std::byte own{mine};
  std::vector<std::byte> said(group_.size());
  CAUSEWAY_TRY(all_gather(group_, of_kind(2), std::span{&own, 1}, std::span{said}, options_));
  for (net::peer_index r = 0; r < group_.size(); ++r) {
    if (said[r] > std::byte{1}) return fail(errc::corrupt, peer_name(group_.peer_of(r)), "its word is neither yes nor no");
  }
  return std::all_of(said.begin(), said.end(), [](std::byte b) { return b == std::byte{1}; });
}

CAUSEWAY_DECL net::message_id transport_site::of_kind(std::uint32_t kind) const {
  net::message_id id = id_;
  id.channel += 4 * kind;
  return id;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TRANSPORT_SITE_IPP
#endif

// ---- causeway/collective/tree_relays.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_TREE_RELAYS_HPP
#define CAUSEWAY_COLLECTIVE_TREE_RELAYS_HPP

// What goes by third peers of the rows that travel along a tree: the end of a row, while too much waits for the direct line
// (NETSTORM's auxiliary paths, 2024; collective/relay_paths.hpp). A relay passes bytes on as they are, so that sums and
// means have the same bits with and without. Who sends a row sends something by each of its paths, if only an empty
// message: so everybody knows from the tree what comes, and nobody asks. Whatever a peer waits for, it passes on meanwhile
// what comes to it for others, in the order in which it comes: so nobody can wait for another in a circle.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct relay_options {
  std::uint32_t limit =
      0;  ///< L: above 2 L messages waiting directly, the next path that has fewer takes one; 0: none does
  std::size_t message_bytes = 4'000'000;  ///< a row is cut into these, at least 1; the last may be smaller
};

class tree_relays;

/// What one peer has handed over to its lines in several exchanges, in messages of a row. Not thread-safe.
class line_queues {
 public:
  /// On these lines from now on; what was under way on others does not count.
  CAUSEWAY_DECL void open(const exchange_port& port);
  CAUSEWAY_DECL void note(net::peer_index to, net::operation sent, std::size_t messages);
  /// To this peer, and not out yet. A row's messages that go by one path count until the last of them is out.
  CAUSEWAY_DECL [[nodiscard]] std::size_t handed_over(net::peer_index to);

  /// Whose messages are passed on while anybody waits.
  [[nodiscard]] std::vector<tree_relays*>& relays() noexcept { return relays_; }

 private:
  struct entry {
    net::peer_index to;
    net::operation sent;
    std::size_t messages;
  };
  const net::any_transport* lines_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::vector<entry> entries_;
  std::vector<tree_relays*> relays_;
};

/// Which way a row goes along the link between a peer and its parent.
enum class tree_way : std::uint8_t { up, down };

/// One conversation along a tree. A link is named by the peer at its lower end, the child. At most 8 auxiliary paths of a
/// link are used in each direction, none that is slower than 2 · limit + 2 messages on the link itself, and one fewer than
/// a row has messages: rows of one message go directly, and nothing is sent to relays. Bytes: what goes by a path, once
/// more for each peer in between; empty messages by the others. Memory: (limit + 1) · message_bytes for each path that ends
/// here or leads through here. Stays where it is. Not thread-safe.
class tree_relays {
 public:
  explicit tree_relays(const relay_options& options = {}) : options_{options} {}
  tree_relays(const tree_relays&) = delete;
  tree_relays& operator=(const tree_relays&) = delete;
  ~tree_relays() { close(); }

  /// Queues that several exchanges of this peer have in common: who waits for one of them passes on what comes for any.
  /// Without, only this one's count. Before `open`.
  void share(std::shared_ptr<line_queues> queues) { queues_ = std::move(queues); }
  /// What links cost from the next conversation on, equal on all peers; none: all alike.
  CAUSEWAY_DECL void follow(std::vector<double> costs);

  /// `parents`: of each peer, the root's is itself. `row_bytes`: of the largest row, equal on all peers, as all here.
  CAUSEWAY_DECL void open(const exchange_port& port, const std::vector<net::peer_index>& parents, std::size_t row_bytes);
  /// Sends on their way what of `row` goes by third peers to this child or, up, to the parent `to`. The caller sends the
  /// rest, `row`'s beginning, and notes it.
  CAUSEWAY_DECL std::span<const std::byte> push(tree_way way, net::peer_index to, std::span<const std::byte> row);
  CAUSEWAY_DECL void note(net::peer_index to, net::operation sent, std::size_t bytes);
  /// As talk.wait, of a conversation on the same port; meanwhile whatever comes for others is passed on.
  CAUSEWAY_DECL result<std::size_t> wait(conversation& talk, std::size_t place, net::peer_index peer, time_point deadline);
  /// Appends to the `got` bytes of the row on this child's link in `room` what came by third peers. Their number now; 0 if
  /// that is more than a row may have.
  CAUSEWAY_DECL result<std::size_t> collect(tree_way way, net::peer_index child, std::span<std::byte> room, std::size_t got,
                                            time_point deadline);
  /// Passes on all that is left of this way, whatever comes first.
  CAUSEWAY_DECL result<void> pass_on(tree_way way, time_point deadline);
  /// Waits for what was sent, and ends the conversation.
  CAUSEWAY_DECL result<void> finish(time_point deadline);
  CAUSEWAY_DECL void close();

 private:
  /// A message that comes here: to be passed on, or, where `next` is this peer, at its end.
  struct hop {
    tree_way way;
    net::peer_index child, before, next;
  };
  /// An auxiliary path that begins here.
  struct start {
    tree_way way;
    net::peer_index child, first;
  };

  CAUSEWAY_DECL void plan(const std::vector<net::peer_index>& parents);
  CAUSEWAY_DECL void plan_link(tree_way way, net::peer_index child);
  /// Until `wait` returns at once.
  CAUSEWAY_DECL result<void> until(conversation& talk, std::size_t place, time_point deadline);
  /// Passes on what has come. Whom it came from no more, `until` says.
  CAUSEWAY_DECL void pass_on_what_came();
  [[nodiscard]] bool waits_for(std::size_t i) const {
    return talk_.is_open() && hops_[i].next != self_ && talk_.at(i) != 0;
  }

  [[nodiscard]] std::size_t messages(std::size_t bytes) const {
    return (bytes + options_.message_bytes - 1) / options_.message_bytes;
  }
  // Each hop has a place to receive in, a place to send from, and a slot; then come the places of the starts.
  [[nodiscard]] std::span<std::byte> slot(std::size_t i) { return {memory_.data() + i * slot_bytes_, slot_bytes_}; }
  [[nodiscard]] static part part_of(tree_way way, net::peer_index child) {
    return {2 + static_cast<std::uint32_t>(way), child};
  }

  relay_options options_;
  std::shared_ptr<line_queues> queues_;
  std::vector<double> costs_;

  // The plan, and what it is for.
  net::peer_index self_ = 0;
  std::vector<net::peer_index> parents_;
  std::size_t most_paths_ = 0;
  std::vector<hop> hops_;
  std::vector<start> starts_;

  result<void> passed_on_;
  std::vector<net::operation> awaited_;
  std::size_t slot_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TREE_RELAYS_HPP

// ---- causeway/collective/impl/tree_relays.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

// --- queues --------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void line_queues::open(const exchange_port& port) {
  if (lines_ != &port.transport || epoch_ != port.id.epoch) entries_.clear();
  if (lines_ != &port.transport) relays_.clear();
  lines_ = &port.transport;
  epoch_ = port.id.epoch;
}

CAUSEWAY_DECL void line_queues::note(net::peer_index to, net::operation sent, std::size_t messages) {
  entries_.push_back({to, sent, messages});
}

CAUSEWAY_DECL std::size_t line_queues::handed_over(net::peer_index to) {
  std::erase_if(entries_, [&](const entry& e) { return lines_->done(e.sent); });
  std::size_t messages = 0;
  for (const entry& e : entries_) messages += e.to == to ? e.messages : 0;
  return messages;
}

// --- the plan ------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void tree_relays::follow(std::vector<double> costs) {
  costs_ = std::move(costs);
  parents_.clear();  // what was planned is out of date
}

CAUSEWAY_DECL void tree_relays::plan(const std::vector<net::peer_index>& parents) {
  parents_ = parents;
  hops_.clear();
  starts_.clear();
  for (net::peer_index child = 0; child < parents.size(); ++child) {
    if (parents[child] == child) continue;
    plan_link(tree_way::up, child);
    plan_link(tree_way::down, child);
  }
}

CAUSEWAY_DECL void tree_relays::plan_link(tree_way way, net::peer_index child) {
  const bool is_up = way == tree_way::up;
  const net::peer_index from = is_up ? child : parents_[child];
  const net::peer_index to = is_up ? parents_[child] : child;
  const link_costs links{costs_, static_cast<std::uint32_t>(parents_.size())};
  const double direct = costs_.empty() ? 1 : links(from, to);
  const double saved = (2.0 * options_.limit + 2) * direct;  // what a message that goes by a path would wait for, at least
  for (relay_path& path : relay_paths(links, from, to, most_paths_, saved)) {
    if (from == self_) starts_.push_back({way, child, path.front()});
    path.push_back(to);
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] != self_) continue;
      hops_.push_back({way, child, i == 0 ? from : path[i - 1], i + 1 < path.size() ? path[i + 1] : self_});
    }
  }
}

// --- a conversation ------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void tree_relays::open(const exchange_port& port, const std::vector<net::peer_index>& parents,
                                     std::size_t row_bytes) {
  CAUSEWAY_EXPECT(options_.message_bytes > 0 && row_bytes > 0);
  CAUSEWAY_EXPECT(costs_.empty() || costs_.size() == parents.size() * parents.size());
  close();
  if (!queues_) queues_ = std::make_shared<line_queues>();
  queues_->open(port);
  const std::size_t most = options_.limit == 0 ? 0 : std::min<std::size_t>(messages(row_bytes) - 1, 8);
  if (self_ != port.transport.self() || most_paths_ != most || parents_ != parents) {
    self_ = port.transport.self();
    most_paths_ = most;
    plan(parents);
  }
  slot_bytes_ = (std::min((options_.limit + std::size_t{1}) * options_.message_bytes, row_bytes) + 63) / 64 * 64;
  if (memory_.size() < hops_.size() * slot_bytes_) memory_ = aligned_buffer<std::byte>{hops_.size() * slot_bytes_};
  passed_on_ = {};
  queues_->relays().push_back(this);
  talk_.open(port, 2 * hops_.size() + starts_.size());
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    talk_.receive(i, hops_[i].before, part_of(hops_[i].way, hops_[i].child), slot(i));
  }
}

CAUSEWAY_DECL void tree_relays::close() {
  if (queues_) std::erase(queues_->relays(), this);
  talk_.close();
}

CAUSEWAY_DECL std::span<const std::byte> tree_relays::push(tree_way way, net::peer_index to,
                                                           std::span<const std::byte> row) {
  if (!passed_on_) return row;  // it ended while another exchange waited; `wait` says so
  const net::peer_index child = way == tree_way::up ? self_ : to;
  const auto is_ours = [&](const start& s) { return s.way == way && s.child == child; };
  const auto first = std::find_if(starts_.begin(), starts_.end(), is_ours);
  const auto last = std::find_if_not(first, starts_.end(), is_ours);
  if (first == last) return row;
  std::vector<std::size_t> handed_over{queues_->handed_over(to)};
  for (auto s = first; s != last; ++s) handed_over.push_back(queues_->handed_over(s->first));
  const auto counts = messages_by_path(messages(row.size()), options_.limit, std::move(handed_over));
  std::size_t at = std::min(counts[0] * options_.message_bytes, row.size());
  const std::span<const std::byte> direct = row.first(at);
  for (auto s = first; s != last; ++s) {
    const std::size_t by_it = counts[static_cast<std::size_t>(s - first) + 1];
    const std::span<const std::byte> bytes = row.subspan(at, std::min(by_it * options_.message_bytes, row.size() - at));
    const std::size_t place = 2 * hops_.size() + static_cast<std::size_t>(s - starts_.begin());
    note(s->first, talk_.send(place, s->first, part_of(way, child), bytes), bytes.size());
    at += bytes.size();
  }
  return direct;
}

CAUSEWAY_DECL void tree_relays::note(net::peer_index to, net::operation sent, std::size_t bytes) {
  if (options_.limit > 0 && bytes > 0) queues_->note(to, sent, messages(bytes));
}

CAUSEWAY_DECL void tree_relays::pass_on_what_came() {
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    if (!waits_for(i) || !talk_.done(i)) continue;
    const hop& h = hops_[i];
    const auto moved = talk_.wait(i, h.before, time_point{});
    if (!moved) {
      passed_on_ = moved.error();
      return;
    }
    note(h.next, talk_.send(hops_.size() + i, h.next, part_of(h.way, h.child), slot(i).first(*moved)), *moved);
  }
}

CAUSEWAY_DECL result<void> tree_relays::until(conversation& talk, std::size_t place, time_point deadline) {
  for (;;) {
    const bool is_there = talk.done(place);  // asked first: what comes meanwhile may be for others, and is passed on below
    awaited_.clear();
    for (tree_relays* const r : queues_->relays()) {
      r->pass_on_what_came();
      for (std::size_t i = 0; i < r->hops_.size(); ++i) {
        if (r->waits_for(i)) awaited_.push_back(r->talk_.at(i));
      }
    }
    CAUSEWAY_TRY(passed_on_);
    if (is_there || talk.at(place) == 0) return {};  // or it was one of these
    awaited_.push_back(talk.at(place));
    if (!talk.wait_any(awaited_, deadline)) return {};
  }
}

CAUSEWAY_DECL result<std::size_t> tree_relays::wait(conversation& talk, std::size_t place, net::peer_index peer,
                                                    time_point deadline) {
  CAUSEWAY_TRY(until(talk, place, deadline));
  return talk.wait(place, peer, deadline);
}

CAUSEWAY_DECL result<std::size_t> tree_relays::collect(tree_way way, net::peer_index child, std::span<std::byte> room,
                                                       std::size_t got, time_point deadline) {
  bool fits = true;
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    const hop& h = hops_[i];
    if (h.way != way || h.child != child || h.next != self_) continue;
    CAUSEWAY_ASSIGN(const std::size_t moved, wait(talk_, i, h.before, deadline));
    fits = fits && moved <= room.size() - got;
    if (!fits) continue;
    std::copy_n(slot(i).begin(), moved, room.begin() + static_cast<std::ptrdiff_t>(got));
    got += moved;
  }
  return fits ? got : 0;
}

CAUSEWAY_DECL result<void> tree_relays::pass_on(tree_way way, time_point deadline) {
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    if (hops_[i].way != way || !waits_for(i)) continue;
    CAUSEWAY_TRY(until(talk_, i, deadline));
    if (waits_for(i)) CAUSEWAY_TRY(talk_.finish(i, hops_[i].before, deadline));  // it did not come
  }
  return {};
}

CAUSEWAY_DECL result<void> tree_relays::finish(time_point deadline) {
  CAUSEWAY_TRY(passed_on_);
  for (std::size_t i = 0; i < hops_.size(); ++i) CAUSEWAY_TRY(talk_.finish(hops_.size() + i, hops_[i].next, deadline));
  for (std::size_t s = 0; s < starts_.size(); ++s) {
    CAUSEWAY_TRY(talk_.finish(2 * hops_.size() + s, starts_[s].first, deadline));
  }
  close();
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP
#endif

// ---- causeway/collective/tree_mean.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP

// Up a tree and down again: each peer adds its children's sums to its own values and sends the sum to its parent; the root
// divides, and the mean goes down the same way, as the bytes that the root made of it. Nobody talks to more than a few
// others. Everybody, the root too, takes what those bytes decode to: the same bits everywhere. While too much waits for the
// line to a parent or a child, the end of a row may go by third peers (collective/tree_relays.hpp).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Equal on all peers.
struct tree_options {
  std::uint32_t arity = 2;   ///< children of a peer; 0: all are the root's
  net::peer_index root = 0;  ///< modulo the peers; the others follow it in the order of their indices, level by level
  std::vector<net::peer_index> parents{};  ///< none: so; else of each peer, the root's is itself (link_trees.hpp)
  relay_options relays{};                  ///< what goes by third peers: nothing
};

/// Models Exchange. `turn` takes the sums up, `finish` the mean down. A peer sends a row encoded by UpCodec to its parent
/// and one encoded by DownCodec to each child, and 16 bytes more for each message; 2 · depth latencies, each of a whole
/// row: for small rows and many peers. What is lost when a sum is encoded is lost for good: there is no residual. With
/// `relays` peers pass parts of others' rows on, for which they wait in `turn` and `finish`.
template <class UpCodec, class DownCodec = UpCodec>
class tree_mean {
  static_assert(!UpCodec::traits.sparse && !UpCodec::traits.transform, "partial sums need all coordinates, as values");

 public:
  static constexpr std::string_view name = "tree_mean";
  static constexpr exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = false, .counts = false, .stateful = false};

  explicit tree_mean(tree_options options = {}, UpCodec up = UpCodec{}, DownCodec down = DownCodec{})
      : options_{std::move(options)},
        up_{std::move(up)},
        down_{std::move(down)},
        relays_{std::make_unique<tree_relays>(options_.relays)} {}

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> {
    CAUSEWAY_EXPECT(row.residual.empty() && row.counts.empty());
    cancel();
    peers_ = port.transport.size();
    self_ = port.transport.self();
    CAUSEWAY_EXPECT(options_.parents.empty() || options_.parents.size() == peers_);
    take_place();
    lay_out(row.values.size(), ctx);
    talk_.open(port, kinds * peers_);
    relays_->open(port, parents_, std::max(up_slot_, down_slot_));
    for (std::size_t i = 0; i < children_.size(); ++i) {
      talk_.receive(place(sum_in, children_[i]), children_[i], part{0}, from_child(i));
    }
    if (!is_root()) talk_.receive(place(mean_in, parent_), parent_, part{1}, mean_message());
    if (children_.empty() && !is_root()) send_sum(row, ctx);
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    return closing(take_up(port, row, ctx));
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    CAUSEWAY_TRY(closing(take_down(port.options.deadline)));
    const peer_message m = detail::read_message(parent_, mean_message().first(mean_bytes_), count_, peers_);
    const std::optional<refusal> bad = detail::adopt_message(down_, ctx, m, row.values);
    CAUSEWAY_TRY(closing(finish_sends(port.options.deadline)));
    if (bad) return to_error(*bad, peers_);
    return {};
  }

  void cancel() {
    relays_->close();
    talk_.close();
  }

  /// The tree from the next conversation on, and what links cost; equal on all peers.
  void follow(std::vector<net::peer_index> parents, const std::vector<double>& costs) {
    options_.parents = std::move(parents);
    relays_->follow(costs);
  }
  /// Queues of messages that several exchanges have in common.
  void share(std::shared_ptr<line_queues> queues) { relays_->share(std::move(queues)); }

 private:
  enum kind : std::size_t { sum_in, sum_out, mean_in, mean_out, kinds };

  // --- the tree ----------------------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_root() const { return parent_ == self_; }
  /// Whose child this peer is, and who are its own, by index counted from the root.
  void take_place() {
    parents_ = options_.parents.empty() ? index_tree(peers_, options_.root, options_.arity) : options_.parents;
    parent_ = parents_[self_];
    children_.clear();
    const net::peer_index root = root_of(parents_);
    for (std::uint32_t i = 1; i < peers_; ++i) {
      const net::peer_index p = (root + i) % peers_;
      if (parents_[p] == self_) children_.push_back(p);
    }
  }

  /// An error ends the conversation.
  result<void> closing(result<void> outcome) {
    if (!outcome) cancel();
    return outcome;
  }

  // --- places of operations, slots of bytes: the own sum, the mean, the children's sums -----------------------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> own_sum() { return {memory_.data(), up_slot_}; }
  [[nodiscard]] std::span<std::byte> mean_message() { return {memory_.data() + up_slot_, down_slot_}; }
  [[nodiscard]] std::span<std::byte> from_child(std::size_t i) {
    return {memory_.data() + up_slot_ + down_slot_ + i * up_slot_, up_slot_};
  }

  /// Sends what of a row goes directly, and by third peers the rest.
  void send(kind what, tree_way way, net::peer_index to, std::span<const std::byte> row) {
    const std::span<const std::byte> direct = relays_->push(way, to, row);
    const part message{static_cast<std::uint32_t>(way)};
    relays_->note(to, talk_.send(place(what, to), to, message, direct), direct.size());
  }

  void lay_out(std::size_t count, const auto& ctx) {
    up_slot_ = detail::message_slot(up_.most_bytes(ctx, count));
    down_slot_ = detail::message_slot(down_.most_bytes(ctx, count));
    const std::size_t bytes = (1 + children_.size()) * up_slot_ + down_slot_;
    if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
    if (sum_.size() < count) sum_ = aligned_buffer<float>{count};
    count_ = count;
    sums_.clear();
  }

  // --- up -----------------------------------------------------------------------------------------------------------

  result<void> take_up(const exchange_port& port, const exchange_row& row, const auto& ctx) {
    for (std::size_t i = 0; i < children_.size(); ++i) CAUSEWAY_TRY(take_sum(port.options.deadline, children_[i], i));
    if (is_root()) {
      make_mean(row, ctx);
      pass_down();
    } else if (!children_.empty()) {
      send_sum(row, ctx);
    }
    return relays_->pass_on(tree_way::up, port.options.deadline);
  }

  result<void> take_sum(time_point deadline, net::peer_index child, std::size_t i) {
    CAUSEWAY_ASSIGN(std::size_t moved, relays_->wait(talk_, place(sum_in, child), child, deadline));
    CAUSEWAY_ASSIGN(moved, relays_->collect(tree_way::up, child, from_child(i), moved, deadline));
    sums_.push_back(detail::read_message(child, from_child(i).first(moved), count_, peers_));
    return {};
  }

  /// sum_ = the own values and the children's sums, each as often as it counts; `weight` becomes how much that is.
  std::optional<refusal> add_up(const exchange_row& row, const auto& ctx, float& weight) {
    const std::span<float> sum{sum_.data(), count_};
    std::optional<refusal> bad;
    for (const peer_message& m : sums_) {
      if (m.bad) note(bad, *m.bad);
    }
    weight = row.weight;
    if (row.refused != errc{}) note(bad, {self_, row.refused});
    if (!bad && !detail::weighted(ctx.pool, row.values, weight, sum)) note(bad, {self_, errc::non_finite});
    for (const peer_message& m : sums_) {
      if (bad || m.weight == 0) continue;
      weight += m.weight;
      const auto added = up_.decode_add(ctx, m.bytes, sum, 1.0F, {});
      if (!added) note(bad, {m.peer, added.error().code});
    }
    return bad;
  }

  void send_sum(const exchange_row& row, const auto& ctx) {
    float weight = 0;
    std::optional<refusal> bad = add_up(row, ctx, weight);
    const std::span<std::byte> room = own_sum();
    const std::span<std::byte> values = room.subspan(message_header_bytes);
    const std::span<float> sum{sum_.data(), count_};
    std::size_t used = 0;
    if (!bad && weight > 0) used = up_.encode(ctx, sum, values);
    if (used > 0 && !detail::is_finite(up_, ctx, values.first(used), sum)) bad = refusal{peers_, errc::non_finite};
    if (bad) used = 0;
    detail::write_header(room, bad ? 0.0F : weight, count_, bad.value_or(detail::no_refusal));
    used += message_header_bytes;
    send(sum_out, tree_way::up, parent_, room.first(used));
  }

  // --- down ---------------------------------------------------------------------------------------------------------

  void make_mean(const exchange_row& row, const auto& ctx) {
    const std::span<float> mean{sum_.data(), count_};
    float weight = 0;
    std::optional<refusal> bad = add_up(row, ctx, weight);
    const float factor = detail::mean_factor(double{weight});
    if (!bad && factor == 0) bad = refusal{peers_, errc::invalid_argument};
    if (!bad && !detail::scale_finite(ctx.pool, mean, factor)) bad = refusal{peers_, errc::non_finite};
    detail::write_header(mean_message(), bad ? 0.0F : 1.0F, count_, bad.value_or(detail::no_refusal));
    mean_bytes_ = message_header_bytes;
    if (!bad) mean_bytes_ += down_.encode(ctx, mean, mean_message().subspan(message_header_bytes));
  }

  void pass_down() {
    for (const net::peer_index child : children_) {
      send(mean_out, tree_way::down, child, mean_message().first(mean_bytes_));
    }
  }

  result<void> take_down(time_point deadline) {
    if (!is_root()) {
      CAUSEWAY_TRY(relays_->wait(talk_, place(sum_out, parent_), parent_, deadline));
      CAUSEWAY_ASSIGN(mean_bytes_, relays_->wait(talk_, place(mean_in, parent_), parent_, deadline));
      CAUSEWAY_ASSIGN(mean_bytes_, relays_->collect(tree_way::down, self_, mean_message(), mean_bytes_, deadline));
      pass_down();
    }
    return relays_->pass_on(tree_way::down, deadline);
  }

  result<void> finish_sends(time_point deadline) {
    for (net::peer_index p = 0; p < peers_; ++p) CAUSEWAY_TRY(talk_.finish(place(mean_out, p), p, deadline));
    CAUSEWAY_TRY(relays_->finish(deadline));
    talk_.close();
    return {};
  }

  tree_options options_;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::vector<net::peer_index> parents_;  // of each peer
  net::peer_index parent_ = 0;
  std::vector<net::peer_index> children_;
  std::size_t count_ = 0;
  std::size_t up_slot_ = 0;
  std::size_t down_slot_ = 0;
  std::size_t mean_bytes_ = 0;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> sum_;
  std::vector<peer_message> sums_;       // of the children, in their order
  std::unique_ptr<tree_relays> relays_;  // stays where it is
  conversation talk_;                    // these two last: they go first, and cancel what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TREE_MEAN_HPP

// ---- causeway/collective/two_level_mean.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_TWO_LEVEL_MEAN_HPP
#define CAUSEWAY_COLLECTIVE_TWO_LEVEL_MEAN_HPP

// For peers that sit in regions with slow lines between them: each region's mean is made at its hub, the hubs average those
// among themselves with an exchange of their own, and pass the result on (the hubs of Gaia). What crosses regions grows
// with the number of regions, not of peers. All hubs hold the same bits and encode them in the same way, and all peers,
// hubs too, take what those bytes decode to: the same bits everywhere.

#include <charconv>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Tells all peers this one's region, and finds out which ones there are.
CAUSEWAY_DECL result<void> gather_regions(const exchange_port& port, const region_label& label, region_list& found);

/// The region that a peer is in. errc::invalid_argument: they do not name each of `peers` peers once.
CAUSEWAY_DECL result<std::size_t> region_of(net::peer_index peer, const region_list& regions, std::uint32_t peers);

/// A transport that stays where it is when its owner moves. Assigning swaps: what still talks over it goes after it.
class held_transport {
 public:
  held_transport() = default;
  held_transport(held_transport&&) noexcept = default;
  held_transport& operator=(held_transport&& other) noexcept;

  CAUSEWAY_DECL void hold(group_view group);
  [[nodiscard]] net::any_transport& get() const noexcept { return *transport_; }

 private:
  std::unique_ptr<net::any_transport> transport_;
};

}  // namespace detail

/// Models Exchange. `turn` makes the region's mean and begins the exchange among hubs, `finish` ends that and takes the
/// result to the region. A peer sends a row encoded by UpCodec to its hub; a hub sends what `Across` sends for as many
/// peers as there are regions, and a row encoded by DownCodec to each peer of its region; 16 bytes more for each message. 2
/// latencies within a region and those of `Across`.
///
/// Regions are the given ones, or, after `set_label`, those that the peers say, in a message of 4 bytes to each
/// other peer, which `begin` waits for: a latency more, of the longest line. The result is the same, whatever the regions.
///
/// The residual is what the own message left out. What `Across` loses of a region's mean is lost, unless it keeps that
/// itself (split_options::server_residual). Where a region has values that cannot be used, its own peers are told whose,
/// the others the name of its hub.
template <class UpCodec, class Across = split_mean<UpCodec>, class DownCodec = UpCodec>
class two_level_mean {
 public:
  static constexpr std::string_view name = "two_level_mean";
  static constexpr exchange_traits traits{.bit_parity = Across::traits.bit_parity,
                                          .own_support = Across::traits.own_support,
                                          .residual = true,
                                          .counts = false,
                                          .stateful = Across::traits.stateful};

  explicit two_level_mean(region_list regions, Across across = Across{}, UpCodec up = UpCodec{},
                          DownCodec down = DownCodec{})
      : regions_{std::move(regions)}, up_{std::move(up)}, down_{std::move(down)}, across_{std::move(across)} {}

  /// From now on regions are what the peers say, all of them. `fewest`: equal on all.
  void set_label(const region_label& label) { label_ = label, asks_ = true; }
  [[nodiscard]] const region_list& regions() const noexcept { return regions_; }

  template <MessageContext X>
  result<void> begin(const exchange_port& port, const exchange_row& row,
                     const X& ctx) requires MessageCodec<UpCodec, X> && MessageCodec<DownCodec, X> && Exchange<Across, X> {
    CAUSEWAY_EXPECT(row.counts.empty());
    self_ = port.transport.self();
    peers_ = port.transport.size();
    cancel();
    if (asks_) CAUSEWAY_TRY(detail::gather_regions(port, label_, regions_));
    CAUSEWAY_TRY(find_region());
    talk_.open(port, kinds * peers_);
    lay_out(row.values.size(), ctx);
    own_bytes_ = detail::write_contribution(up_, ctx, row, from_member(0), self_);
    if (!is_hub()) {
      talk_.receive(place(result_in, hub()), hub(), part{1}, result_message());
      talk_.send(place(up_out, hub()), hub(), part{0}, from_member(0).first(own_bytes_));
      return {};
    }
    for (std::size_t i = 1; i < mine().size(); ++i)
      talk_.receive(place(up_in, mine()[i]), mine()[i], part{0}, from_member(i));
    return {};
  }

  result<void> turn(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    if (!is_hub()) return {};
    messages_.clear();
    for (std::size_t i = 0; i < mine().size(); ++i) {
      std::size_t moved = own_bytes_;
      if (i > 0) {
        CAUSEWAY_ASSIGN(moved, talk_.wait(place(up_in, mine()[i]), mine()[i], port.options.deadline));
      }
      messages_.push_back(detail::read_message(mine()[i], from_member(i).first(moved), row.values.size(), peers_));
    }
    reduce(ctx);
    std::vector<net::peer_index> hubs;
    for (const auto& r : regions_) hubs.push_back(r.front());
    hubs_.hold(group_view{port.transport, std::move(hubs)});
    CAUSEWAY_TRY(closing(across_.begin(port.beside(hubs_.get()), row_of_region(), ctx)));
    return closing(across_.turn(port.beside(hubs_.get()), row_of_region(), ctx));
  }

  result<void> finish(const exchange_port& port, const exchange_row& row, const MessageContext auto& ctx) {
    CAUSEWAY_EXPECT(talk_.is_open());
    const time_point deadline = port.options.deadline;
    if (is_hub()) {
      CAUSEWAY_TRY(finish_across(port, ctx));
      for (std::size_t i = 1; i < mine().size(); ++i) {
        talk_.send(place(result_out, mine()[i]), mine()[i], part{1}, result_message().first(result_bytes_));
      }
    } else {
      CAUSEWAY_TRY(talk_.finish(place(up_out, hub()), hub(), deadline));
      CAUSEWAY_ASSIGN(result_bytes_, talk_.wait(place(result_in, hub()), hub(), deadline));
    }
    const peer_message m = detail::read_message(hub(), result_message().first(result_bytes_), row.values.size(), peers_);
    const std::optional<refusal> bad = detail::adopt_message(down_, ctx, m, row.values);
    for (const net::peer_index p : mine()) CAUSEWAY_TRY(talk_.finish(place(result_out, p), p, deadline));
    talk_.close();
    if (bad) return to_error(*bad, peers_);
    return {};
  }

  void cancel() {
    across_.cancel();
    talk_.close();
  }

  /// What `Across` keeps from round to round.
  void serialize(auto& ar) {
    if constexpr (requires { across_.serialize(ar); }) across_.serialize(ar);
  }

 private:
  enum kind : std::size_t { up_out, up_in, result_in, result_out, kinds };

  // --- regions ------------------------------------------------------------------------------------------------------

  result<void> find_region() {
    CAUSEWAY_ASSIGN(region_, detail::region_of(self_, regions_, peers_));
    return {};
  }
  [[nodiscard]] const std::vector<net::peer_index>& mine() const { return regions_[region_]; }
  [[nodiscard]] net::peer_index hub() const { return mine().front(); }
  [[nodiscard]] bool is_hub() const { return hub() == self_; }

  // --- places of operations, slots of bytes: the result, then messages of the region, the own one first -------------

  [[nodiscard]] std::size_t place(kind what, net::peer_index p) const { return what * peers_ + p; }
  [[nodiscard]] std::span<std::byte> result_message() { return {memory_.data(), down_slot_}; }
  [[nodiscard]] std::span<std::byte> from_member(std::size_t i) {
    return {memory_.data() + down_slot_ + i * up_slot_, up_slot_};
  }

  void lay_out(std::size_t count, const auto& ctx) {
    up_slot_ = detail::message_slot(up_.most_bytes(ctx, count));
    down_slot_ = detail::message_slot(down_.most_bytes(ctx, count));
    const std::size_t bytes = down_slot_ + (is_hub() ? mine().size() : 1) * up_slot_;
    if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
    if (is_hub() && region_row_.size() != count) region_row_ = aligned_buffer<float>{count};
  }

  // --- what a hub does ----------------------------------------------------------------------------------------------

  /// region_row_ and weight_ = the mean of the region and how much it counts; or bad_, what is wrong with it.
  void reduce(const auto& ctx) {
    const std::span<float> sum = region_row_.span();
    kernels::zero(ctx.pool, sum.data(), static_cast<std::int64_t>(sum.size()));
    bad_.reset();
    for (const peer_message& m : messages_) {
      if (m.bad) note(bad_, {m.peer, m.bad->code});
    }
    double total = 0;
    for (const peer_message& m : messages_) {
      if (bad_ || m.weight == 0) continue;
      total += m.weight;
      const auto added = up_.decode_add(ctx, m.bytes, sum, m.weight, {});
      if (!added) note(bad_, {m.peer, added.error().code});
    }
    weight_ = static_cast<float>(total);
    if (bad_ || total == 0) return;
    const float factor = detail::mean_factor(total);
    if (factor == 0 || !detail::scale_finite(ctx.pool, sum, factor)) bad_ = refusal{peers_, errc::non_finite};
    if (!bad_) detail::invert(up_, ctx, sum);
  }

  [[nodiscard]] exchange_row row_of_region() {
    return {.values = region_row_.span(), .weight = bad_ ? 0.0F : weight_, .refused = bad_ ? bad_->code : errc{}};
  }

  /// An error among hubs ends the conversation with the region too.
  result<void> closing(result<void> outcome) {
    if (!outcome) talk_.close();
    return outcome;
  }

  /// Writes the message for the region: the mean of all, or why there is none.
  template <class X>
  result<void> finish_across(const exchange_port& port, const X& ctx) {
    const auto outcome = across_.finish(port.beside(hubs_.get()), row_of_region(), ctx);
    std::optional<refusal> bad = bad_;
    if (!outcome && !bad) bad = refused_by_hubs(outcome.error());
    if (!outcome && !bad) return closing(outcome);
    X same_everywhere{ctx};
    same_everywhere.own_seed = ctx.seed;  // or hubs would round the same values differently
    detail::write_header(result_message(), bad ? 0.0F : 1.0F, region_row_.size(), bad.value_or(detail::no_refusal));
    result_bytes_ = message_header_bytes;
    if (!bad) {
      const std::span<std::byte> body = result_message().subspan(message_header_bytes);
      result_bytes_ += down_.encode(same_everywhere, region_row_.span(), body);
    }
    return {};
  }

  /// What all hubs were told alike; nothing where the network failed. Hubs know each other by rank.
  [[nodiscard]] std::optional<refusal> refused_by_hubs(const error& e) const {
    if (e.code == errc::invalid_argument || e.code == errc::unsupported) return refusal{peers_, e.code};
    if (e.code != errc::non_finite && e.code != errc::corrupt && e.code != errc::protocol) return std::nullopt;
    constexpr std::string_view prefix = "peer ";
    std::size_t rank = regions_.size();
    if (e.where.starts_with(prefix)) {
      (void)std::from_chars(e.where.data() + prefix.size(), e.where.data() + e.where.size(), rank);
    }
    return refusal{rank < regions_.size() ? regions_[rank].front() : peers_, e.code};
  }

  region_list regions_;
  region_label label_;
  bool asks_ = false;
  UpCodec up_;
  DownCodec down_;
  net::peer_index self_ = 0;
  std::uint32_t peers_ = 1;
  std::size_t region_ = 0;
  std::size_t up_slot_ = 0;
  std::size_t down_slot_ = 0;
  std::size_t own_bytes_ = 0;
  std::size_t result_bytes_ = 0;
  float weight_ = 0;
  std::optional<refusal> bad_;
  aligned_buffer<std::byte> memory_;
  aligned_buffer<float> region_row_;
  std::vector<peer_message> messages_;
  detail::held_transport hubs_;
  Across across_;      // after what it uses
  conversation talk_;  // last: goes first, and cancels what uses the rest
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_TWO_LEVEL_MEAN_HPP

// ---- causeway/collective/impl/two_level_mean.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL result<void> gather_regions(const exchange_port& port, const region_label& label, region_list& found) {
  std::vector<std::uint32_t> all(port.transport.size(), label.own);
  net::message_id id = port.id;
  id.channel += 1;  // the first of ours has the rows
  CAUSEWAY_TRY(all_gather(port.transport, id, std::as_bytes(std::span{&label.own, 1}),
                          std::as_writable_bytes(std::span{all}), port.options));
  found = regions_by_label(all, label.fewest);
  return {};
}

CAUSEWAY_DECL result<std::size_t> region_of(net::peer_index peer, const region_list& regions, std::uint32_t peers) {
  if (!has_each_once(regions, peers)) {
    return fail(errc::invalid_argument, "two_level_mean", "regions must name every peer of the group once");
  }
  std::size_t region = 0;
  while (std::find(regions[region].begin(), regions[region].end(), peer) == regions[region].end()) ++region;
  return region;
}

CAUSEWAY_DECL void held_transport::hold(group_view group) {
  transport_ = std::make_unique<net::any_transport>(std::move(group));
}

CAUSEWAY_INLINE held_transport& held_transport::operator=(held_transport&& other) noexcept {
  std::swap(transport_, other.transport_);
  return *this;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TWO_LEVEL_MEAN_IPP
#endif

// ---- causeway/axis/parts.hpp ----
#ifndef CAUSEWAY_AXIS_PARTS_HPP
#define CAUSEWAY_AXIS_PARTS_HPP

// The axes of a communication policy. comm::rounds is given one value of each, in any order, and takes a default for those
// that are left out; this header sorts them. An axis value is small, movable, knows its own options and its own run state,
// and nothing of the other axes: what two of them must agree on is a rule in comm/rounds.hpp.

#include <tuple>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// What an axis value decides. Every one says it as `static constexpr axis::part decides`.
enum class part : std::uint8_t {
  none,
  trigger,        ///< when a fragment is exchanged
  content,        ///< what is sent
  fragments,      ///< how the parameters are cut
  group,          ///< which peers take part together
  exchange,       ///< how the mean is found: topology, codec, aggregator
  residual,       ///< what becomes of what a lossy codec left out
  participation,  ///< who contributes
  outer,          ///< what the mean does to the shared parameters
  merge_rule,     ///< when the result is waited for, and what the live parameters become
};

namespace detail {

template <class A>
concept SaysItsPart = requires {
  { A::decides } -> std::same_as<const part&>;
};

template <class A>
consteval part part_of() {
  if constexpr (SaysItsPart<A>) {
    return A::decides;
  } else {
    return part::none;
  }
}

template <part P, class... Axes>
inline constexpr std::size_t count_of = (std::size_t{0} + ... + (part_of<Axes>() == P ? 1U : 0U));

template <part P, class Default, class... Axes>
struct first_of {
  using type = Default;
};
template <part P, class Default, class A, class... Axes>
struct first_of<P, Default, A, Axes...> {
  using type = typename std::conditional_t<part_of<A>() == P, std::type_identity<A>, first_of<P, Default, Axes...>>::type;
};

}  // namespace detail

/// The type among `Axes` that decides P, else Default.
template <part P, class Default, class... Axes>
using pick = typename detail::first_of<P, Default, Axes...>::type;

/// Whether every type is an axis value, and whether none occurs twice.
template <class... Axes>
inline constexpr bool all_known = ((detail::part_of<Axes>() != part::none) && ...);
template <class... Axes>
inline constexpr bool all_different =
    ((detail::count_of<detail::part_of<Axes>(), Axes...> == 1 || detail::part_of<Axes>() == part::none) && ...);

/// The value that decides P out of `values`, else a default one.
template <part P, class Default, class... Axes>
auto take(std::tuple<Axes...>& values) {
  using wanted = pick<P, Default, Axes...>;
  if constexpr (detail::count_of<P, Axes...> == 1) {
    return std::move(std::get<wanted>(values));
  } else {
    return wanted{};
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_PARTS_HPP

// ---- causeway/compress/codec.hpp ----
#ifndef CAUSEWAY_COMPRESS_CODEC_HPP
#define CAUSEWAY_COMPRESS_CODEC_HPP

// How a row of f32 values becomes bytes and values again. A codec is a small value without state: what it gives depends on
// its options and its input alone, to the bit, whatever the thread count or the instruction set. All numbers on the wire
// are little-endian.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

static_assert(std::endian::native == std::endian::little, "codecs write numbers as they lie in memory");

/// What a codec says about itself, for rules that decide which combinations are allowed.
struct codec_traits {
  bool lossy = true;            ///< decode(encode(x)) may differ from x: feed the residual back, or lose it
  bool per_block = false;       ///< values share a scale with their neighbours, so blocks must not be cut
  bool per_tensor = false;      ///< all values share what they are counted from: encode each tensor's apart
  bool sparse = false;          ///< a message may leave values out (messages only, see message.hpp; so the next two)
  bool chosen_is_sent = false;  ///< of a quantiser: a value counts as sent as it is, whatever it decodes to
  bool shared_support = false;  ///< all peers' messages of one exchange have the same coordinates
  bool transform = false;       ///< messages decode to coefficients, and `inverse` makes values of them
};

/// Requirements. `n` values need exactly `encoded_size(n)` bytes.
///
/// - `encode(pool, values, room)` writes them to the front of `room` and gives their number. It rejects nothing: NaN and
///   infinity are encoded so that `decode` refuses them.
/// - `decode(pool, bytes, values)` reads bytes that anybody may have sent: errc::protocol when their number is wrong,
///   errc::non_finite when a value would not be finite, errc::corrupt for other bytes that no encoder makes. After an error
///   `values` are unspecified.
/// - `block()`: values may be cut at multiples of it, and encoded apart, without changing what they decode to.
/// - `raw`: the bytes are the values.
template <class C>
concept Codec = Copyable<C> &&
    requires(const C& c, thread_pool& pool, std::size_t n, std::span<const float> values, std::span<std::byte> room,
             std::span<const std::byte> bytes, std::span<float> decoded) {
  { C::name } -> ConvertibleTo<std::string_view>;
  { C::traits } -> ConvertibleTo<codec_traits>;
  {bool{C::raw}};
  { c.block() } -> std::same_as<std::size_t>;
  { c.encoded_size(n) } -> std::same_as<std::size_t>;
  { c.encode(pool, values, room) } -> std::same_as<std::size_t>;
  { c.decode(pool, bytes, decoded) } -> std::same_as<result<void>>;
};

/// A codec that can add what it decodes, which saves the sum of an exchange a pass over memory:
/// `decode_add(pool, bytes, sum, weight)` makes each sum[i] the rounded sum[i] + round(weight · decoded[i]), the bits that
/// decode and a separate multiplication and addition give. The bytes are checked, as decode checks them, before anything
/// is added: after an error `sum` is unchanged. A sum that overflows is no error here.
template <class C>
concept AddingCodec = Codec<C> &&
    requires(const C& c, thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight) {
  { c.decode_add(pool, bytes, sum, weight) } -> std::same_as<result<void>>;
};

namespace detail {

inline error wrong_length(std::string_view codec, std::size_t got, std::size_t expected) {
  return fail(errc::protocol, std::string{codec},
              std::to_string(got) + " bytes where " + std::to_string(expected) +
                  " encode the values; do both sides use the same codec and options?");
}

inline error not_finite(std::string_view codec) {
  return fail(errc::non_finite, std::string{codec},
              "the bytes decode to NaN or infinity; the sender's values are unusable");
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_CODEC_HPP

// ---- causeway/compress/message.hpp ----
#ifndef CAUSEWAY_COMPRESS_MESSAGE_HPP
#define CAUSEWAY_COMPRESS_MESSAGE_HPP

// What one peer sends about a row of f32 values in one exchange. Against a Codec (codec.hpp), a message codec may leave
// values out, may know which parts of the row are matrices, and may draw random numbers that all peers share; so its length
// may depend on the values. It is a value without state as well: what it gives depends on its options, the context and the
// input alone, to the bit, whatever the thread count or the instruction set.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// A matrix within a row: `rows` times `columns` values one after another from `offset` on. A vector has one row.
struct matrix_range {
  std::size_t offset = 0;
  std::size_t rows = 1;
  std::size_t columns = 0;
  parameter_kind kind = parameter_kind::matrix;

  friend constexpr bool operator==(const matrix_range&, const matrix_range&) = default;
};

/// What a message codec may know besides the values. Equal on all peers of an exchange, except `own_seed` (and `pool`).
struct message_context {
  thread_pool& pool;
  std::span<const matrix_range> matrices{};  ///< ascending, apart; what no matrix covers is a vector
  std::uint64_t seed = 0;                    ///< of this exchange: for masks that all peers share
  std::uint64_t own_seed = 0;                ///< of this exchange and peer
  std::uint64_t round = 0;                   ///< 0, 1, ...: for thresholds that shrink and masks that take turns
  std::span<const float> reference{};        ///< what the row is relative to (shared parameters): as long as it, or empty

  /// Of another row of the same exchange, in which there are no matrices.
  [[nodiscard]] message_context plain() const { return {.pool = pool, .seed = seed, .own_seed = own_seed, .round = round}; }
};

/// Requirements, for a row of n values:
///
/// - `most_bytes(ctx, n)`: no message is longer. Equal on all peers of an exchange.
/// - `encode(ctx, values, room)` writes a message to the front of `room`, which has at least `most_bytes` bytes, and gives
///   its length. It rejects nothing: NaN and infinity are left out, or encoded so that decoding refuses them.
/// - `decode_add(ctx, bytes, sum, weight, counts)` reads bytes that anybody may have sent, and adds weight · value to
///   sum[i] for each coordinate i of the message, and weight to counts[i] (counts has n values, or none). Errors:
///   errc::protocol for a length no message has, errc::non_finite for values that are not finite, errc::corrupt for other
///   bytes that no encoder makes; sum and counts are then as they were. `weight` is finite; it may be 0 or negative.
/// - `traits.sparse`: coordinates may be missing from a message; without it all are there.
/// - `traits.shared_support`: those present are the same for all peers of an exchange.
/// - `traits.transform`: what decode_add adds, and what counts count, are coefficients of a linear transform of the row, as
///   many as values. Then there is `inverse(ctx, row)`, which turns a row of coefficients into values in place.
///
/// An exchange thus is: sum = 0; decode_add all messages; divide each sum[i] by the total weight, or by counts[i] where
/// that is not 0 (the mean over contributors); then `inverse` once. A peer that keeps what it did not send has
/// `residual_of(codec, ctx, values, own message, residual)`.
template <class C>
concept MessageCodec = Copyable<C> &&
    requires(const C& c, const message_context& ctx, std::size_t n, std::span<const float> values,
             std::span<std::byte> room, std::span<const std::byte> bytes, std::span<float> sum, float weight) {
  { C::name } -> ConvertibleTo<std::string_view>;
  { C::traits } -> ConvertibleTo<codec_traits>;
  { c.most_bytes(ctx, n) } -> std::same_as<std::size_t>;
  { c.encode(ctx, values, room) } -> std::same_as<std::size_t>;
  { c.decode_add(ctx, bytes, sum, weight, sum) } -> std::same_as<result<void>>;
  requires !codec_traits{C::traits}.transform || requires { c.inverse(ctx, sum); };
};

/// residual = values − what `bytes`, this peer's own message, decodes to. `residual` and `values` must not overlap. Fails
/// as decode_add does, when the values are not finite; residual is then unspecified.
template <MessageCodec C>
result<void> residual_of(const C& codec, const message_context& ctx, std::span<const float> values,
                         std::span<const std::byte> bytes, std::span<float> residual) {
  CAUSEWAY_EXPECT(residual.size() == values.size());
  if constexpr (!codec_traits{C::traits}.transform) {
    std::copy(values.begin(), values.end(), residual.begin());
    return codec.decode_add(ctx, bytes, residual, -1.0F, {});
  } else {
    std::fill(residual.begin(), residual.end(), 0.0F);
    CAUSEWAY_TRY(codec.decode_add(ctx, bytes, residual, -1.0F, {}));
    codec.inverse(ctx, residual);
    kernels::add(ctx.pool, residual.data(), residual.data(), values.data(), static_cast<std::int64_t>(values.size()));
    return {};
  }
}

namespace detail {

inline void add_to_counts(thread_pool& pool, std::span<float> counts, float weight) {
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(counts.size()), [&](index_range r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) counts[static_cast<std::size_t>(i)] += weight;
  });
}

}  // namespace detail

/// A dense codec as a message: all values, in pieces that are encoded one after another. A piece is the largest multiple of
/// the codec's block up to 65536 values (so cutting changes no value), or the whole row where the codec can add without a
/// buffer. Costs: otherwise two decodes of the message and one buffer of a piece.
template <Codec C>
class dense_message {
 public:
  static constexpr std::string_view name = C::name;
  static constexpr codec_traits traits = C::traits;

  dense_message() requires DefaultInitializable<C>
  = default;
  explicit dense_message(C codec) : codec_{std::move(codec)} {}

  [[nodiscard]] const C& codec() const noexcept { return codec_; }

  [[nodiscard]] std::size_t most_bytes(const message_context&, std::size_t n) const {
    const std::size_t piece = piece_of(n);
    if (n <= piece) return codec_.encoded_size(n);
    return n / piece * codec_.encoded_size(piece) + (n % piece == 0 ? 0 : codec_.encoded_size(n % piece));
  }

  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    CAUSEWAY_EXPECT(room.size() >= most_bytes(ctx, values.size()));
    std::size_t used = 0;
    for_pieces(values.size(), [&](std::size_t first, std::size_t count) {
      used += codec_.encode(ctx.pool, values.subspan(first, count), room.subspan(used));
    });
    return used;
  }

  result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                          std::span<float> counts) const {
    CAUSEWAY_EXPECT(counts.empty() || counts.size() == sum.size());
    if (bytes.size() != most_bytes(ctx, sum.size())) {
      return detail::wrong_length(name, bytes.size(), most_bytes(ctx, sum.size()));
    }
    if constexpr (AddingCodec<C>) {
      CAUSEWAY_TRY(codec_.decode_add(ctx.pool, bytes, sum, weight));
    } else {
      CAUSEWAY_TRY(decode_pieces(ctx, bytes, sum.size(), [](std::size_t, std::span<const float>) {}));
      CAUSEWAY_TRY(decode_pieces(ctx, bytes, sum.size(), [&](std::size_t first, std::span<const float> values) {
        kernels::axpy(ctx.pool, sum.data() + first, weight, values.data(), static_cast<std::int64_t>(values.size()));
      }));
    }
    detail::add_to_counts(ctx.pool, counts, weight);
    return {};
  }

 private:
  [[nodiscard]] std::size_t piece_of(std::size_t n) const noexcept {
    constexpr std::size_t largest = 65536;
    if (AddingCodec<C> || n <= largest) return std::max(n, std::size_t{1});
    return codec_.block() >= largest ? codec_.block() : largest / codec_.block() * codec_.block();
  }

  void for_pieces(std::size_t n, auto&& f) const {
    const std::size_t piece = piece_of(n);
    for (std::size_t first = 0; first < n; first += std::min(piece, n - first)) f(first, std::min(piece, n - first));
  }

  result<void> decode_pieces(const message_context& ctx, std::span<const std::byte> bytes, std::size_t n, auto&& f) const {
    std::vector<float> values(std::min(piece_of(n), n));
    result<void> outcome;
    for_pieces(n, [&](std::size_t first, std::size_t count) {
      if (!outcome) return;
      const std::size_t size = codec_.encoded_size(count);
      outcome = codec_.decode(ctx.pool, bytes.first(size), std::span{values}.first(count));
      bytes = bytes.subspan(size);
      if (outcome) f(first, std::span<const float>{values}.first(count));
    });
    return outcome;
  }

  C codec_;
};

namespace detail {

/// Stands for what is no codec, so that its refusal (P8) is the only error.
struct refused_codec {
  static constexpr std::string_view name = "none";
  static constexpr codec_traits traits{};
  static constexpr bool raw = true;

  template <class T>
  explicit refused_codec(const T&);
  [[nodiscard]] std::size_t block() const;
  [[nodiscard]] std::size_t encoded_size(std::size_t) const;
  std::size_t encode(thread_pool&, std::span<const float>, std::span<std::byte>) const;
  result<void> decode(thread_pool&, std::span<const std::byte>, std::span<float>) const;
};

template <class C>
struct message_for {
  using type = dense_message<refused_codec>;
};
template <MessageCodec C>
struct message_for<C> {
  using type = C;
};
template <Codec C>
  requires(!MessageCodec<C>)
struct message_for<C> {
  using type = dense_message<C>;
};

}  // namespace detail

/// The message codec that `C` is, or makes: C, or dense_message<C>. `as_message<C>{codec}` works for both.
template <class C>
using as_message = typename detail::message_for<C>::type;

/// Whether `as_message` made `M` of a codec.
template <class M>
inline constexpr bool is_of_codec = !std::is_same_v<M, dense_message<detail::refused_codec>>;

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_MESSAGE_HPP

// ---- causeway/compress/element.hpp ----
#ifndef CAUSEWAY_COMPRESS_ELEMENT_HPP
#define CAUSEWAY_COMPRESS_ELEMENT_HPP

// What codecs have in common: where decoded values go (they replace or are added), and the codecs that store every value
// on its own, as another element type (none, bf16 and fp16).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress { namespace detail {

/// Decoded values replace what was there.
struct put {
  template <class Part>
  CAUSEWAY_ALWAYS_INLINE void operator()(float* to, const kernels::detail::f32x16& v, Part part) const {
    kernels::detail::store(to, v, part);
  }
};

/// Decoded values are added: to + weight · v, two roundings.
struct add_weighted {
  float weight = 1.0F;
  template <class Part>
  CAUSEWAY_ALWAYS_INLINE void operator()(float* to, const kernels::detail::f32x16& v, Part part) const {
    CAUSEWAY_EXACT_BODY
    kernels::detail::f32x16 sum;
    kernels::detail::load(sum, to, part);
    kernels::detail::store(to, sum + weight * v, part);
  }
};

/// `decode` and `decode_add` of a codec C whose `decode_to(pool, bytes, to, sink, level)` does either.
template <class C>
class decodes_to_sink {
 public:
  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                      kernels::simd_level level = kernels::detect_simd_level()) const {
    return static_cast<const C&>(*this).decode_to(pool, bytes, values, put{}, level);
  }

  result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                          kernels::simd_level level = kernels::detect_simd_level()) const {
    return static_cast<const C&>(*this).decode_to(pool, bytes, sum, add_weighted{weight}, level);
  }
};

struct encode_elements {
  static constexpr bool exact = true;
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* from, Element* to, std::int64_t count) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      kernels::detail::store(to + i, v, part);
    });
  }
};

struct add_elements {
  static constexpr bool exact = true;
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static void run(const Element* from, float* to, std::int64_t count, add_weighted add) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      add(to + i, v, part);
    });
  }
};

/// The codec C that stores every value as an `Element`.
template <class C, class Element>
class element_codec {
 public:
  static constexpr bool raw = std::is_same_v<Element, float>;

  [[nodiscard]] static constexpr std::size_t block() noexcept { return 1; }
  [[nodiscard]] static constexpr std::size_t encoded_size(std::size_t n) noexcept { return n * sizeof(Element); }

  static std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                            kernels::simd_level level = kernels::detect_simd_level()) {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const to = reinterpret_cast<Element*>(room.data());
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(values.size()), [&](index_range r) {
      kernels::detail::dispatch<encode_elements>(level, values.data() + r.begin, to + r.begin, r.size());
    });
    return encoded_size(values.size());
  }

  static result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                             kernels::simd_level level = kernels::detect_simd_level()) {
    return look(pool, bytes, values.size(), level, values.data());
  }

  /// Two passes over the bytes: nothing is added before all were found finite.
  static result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                                 kernels::simd_level level = kernels::detect_simd_level()) {
    CAUSEWAY_TRY(look(pool, bytes, sum.size(), level));
    const auto* const from = reinterpret_cast<const Element*>(bytes.data());
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(sum.size()), [&](index_range r) {
      kernels::detail::dispatch<add_elements>(level, from + r.begin, sum.data() + r.begin, r.size(), add_weighted{weight});
    });
    return {};
  }

 private:
  /// Whether there are so many values, all of them finite; with `to`, what they are in f32.
  static result<void> look(thread_pool& pool, std::span<const std::byte> bytes, std::size_t n, kernels::simd_level level,
                           auto... to) {
    if (bytes.size() != encoded_size(n)) return wrong_length(C::name, bytes.size(), encoded_size(n));
    const auto* const from = reinterpret_cast<const Element*>(bytes.data());
    const auto count = static_cast<std::int64_t>(n);
    if (!kernels::detail::look_for_finite(pool, level, count, from, to...)) return not_finite(C::name);
    return {};
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::compress::detail

CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t), compress::detail::encode_elements)
CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t, compress::detail::add_weighted), compress::detail::add_elements)
CAUSEWAY_EXACT_KERNEL((const float*, bf16*, std::int64_t), compress::detail::encode_elements)
CAUSEWAY_EXACT_KERNEL((const bf16*, float*, std::int64_t, compress::detail::add_weighted), compress::detail::add_elements)
CAUSEWAY_EXACT_KERNEL((const float*, f16*, std::int64_t), compress::detail::encode_elements)
CAUSEWAY_EXACT_KERNEL((const f16*, float*, std::int64_t, compress::detail::add_weighted), compress::detail::add_elements)

#endif  // CAUSEWAY_COMPRESS_ELEMENT_HPP

// ---- causeway/compress/none.hpp ----
#ifndef CAUSEWAY_COMPRESS_NONE_HPP
#define CAUSEWAY_COMPRESS_NONE_HPP

// The values as they are. Exact, four bytes each; there so that "no compression" is a codec like any other.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// 4 n bytes. Loses nothing.
class none : public detail::element_codec<none, float> {
 public:
  static constexpr std::string_view name = "none";
  static constexpr codec_traits traits{.lossy = false};
};
static_assert(AddingCodec<none>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_NONE_HPP

// ---- causeway/axis/exchange.hpp ----
#ifndef CAUSEWAY_AXIS_EXCHANGE_HPP
#define CAUSEWAY_AXIS_EXCHANGE_HPP

// How the mean over a group is found: a topology with a codec. Values here are recipes: copyable, with options only; `make`
// gives the exchange (collective/) that does the work for one fragment. Any codec of compress/ fits, as far as the
// topology's rules allow: see the static_asserts of comm::rounds.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// `make(fragment)`: a new collective exchange. `traits`: its traits. `codec_type`: what makes a peer's message, where it
/// is a codec's.
template <class E>
concept ExchangeRecipe = E::decides == part::exchange&& Copyable<E>&& requires {
  { E::traits } -> std::same_as<const collective::exchange_traits&>;
};

/// Whether a recipe has no exchange of its own: the context's mean over all peers is used, in one piece, through `codec`.
template <ExchangeRecipe E>
inline constexpr bool by_context = !(requires(const E& e) { e.make(std::size_t{}); });

/// What a recipe's codec says of its messages; where it has none, they have all coordinates.
template <ExchangeRecipe E>
constexpr compress::codec_traits message_traits() {
  if constexpr (requires { typename E::codec_type; }) {
    return E::codec_type::traits;
  } else {
    return {};
  }
}

/// Whether a recipe's codecs are codecs.
template <class E>
constexpr bool has_codecs() {
  bool good = true;
  if constexpr (requires { typename E::codec_type; }) good = compress::is_of_codec<typename E::codec_type>;
  if constexpr (requires { typename E::down_type; }) good = good && compress::is_of_codec<typename E::down_type>;
  return good;
}

/// The context's mean over all peers: butterfly or ring, whatever suits the size, in chunks that overlap each other.
/// Blocks. Works where peers come and go. Bytes: 2(n−1)/n times the encoded row.
template <compress::Codec Codec = compress::none>
struct all_reduce {
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = true, .counts = false, .stateful = false};

  Codec codec{};
};

/// Everybody's message to everybody; each decodes all of them (collective/gather_mean.hpp). For codecs with which every
/// peer sends coordinates of its own choice, and for small groups. Bytes: (n−1) messages.
template <class Codec = compress::none, class Aggregator = collective::mean>
struct gather_mean {
  using codec_type = compress::as_message<Codec>;
  using type = collective::gather_mean<codec_type, Aggregator>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  Codec codec{};
  Aggregator aggregator{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{codec_type{codec}, aggregator}; }
};

/// Every peer reduces a share of the row, and sends its mean to the others (collective/split_mean.hpp): a butterfly with
/// shares, or a sharded parameter server when only some peers have one. With a lossy `Down`, the owners' residual is kept
/// when split_options::server_residual says so. Bytes: (1 − s) rows up and (n−1)·s rows down, for a share s.
template <class Up = compress::none, class Down = Up>
struct split_mean {
  using codec_type = compress::as_message<Up>;
  using down_type = compress::as_message<Down>;
  using type = collective::split_mean<codec_type, down_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  collective::split_options options{};
  Up up{};
  Down down{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{options, codec_type{up}, down_type{down}}; }
};

/// Around a ring, encoded anew on every hop, finished so that all peers hold the same bits (collective/quantised_ring.hpp).
/// Bytes: 2(n−1)/n encoded rows, to one neighbour only. No residual: partial sums are encoded, not this peer's row.
template <class Codec = compress::none>
struct quantised_ring {
  using codec_type = compress::as_message<Codec>;
  using type = collective::quantised_ring<codec_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  Codec codec{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{codec_type{codec}}; }
};

/// Up a tree to its root and down again (collective/tree_mean.hpp): fragment f has the root roots[f mod size], so that
/// several roots share the work. For small rows and many peers. Bytes: a row to the parent, one to each child. With
/// `links.every` peers of a fixed set measure their links, after so many exchanges again, and each fragment's tree follows
/// them (collective/link_trees.hpp). With `relays.limit` the end of a row goes by third peers while too many messages of
/// the fragments wait for the direct line (collective/tree_relays.hpp).
template <class Up = compress::none, class Down = Up>
struct tree_mean {
  using codec_type = compress::as_message<Up>;
  using down_type = compress::as_message<Down>;
  using type = collective::tree_mean<codec_type, down_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  std::uint32_t arity = 2;
  std::vector<net::peer_index> roots{0};
  Up up{};
  Down down{};
  collective::link_probe links{};
  collective::relay_options relays{};

  [[nodiscard]] type make(std::size_t fragment = 0) const {
    return type{
        {.arity = arity, .root = roots[fragment % roots.size()], .relays = relays}, codec_type{up}, down_type{down}};
  }
  /// How that exchange goes on where links cost so much.
  [[nodiscard]] std::vector<net::peer_index> plan(const collective::link_costs& costs, std::size_t fragment) const {
    return collective::link_tree(costs, roots, fragment, arity);
  }
};

/// The mean of each region at its hub, the hubs' mean among each other through `Across`, and back (collective/
/// two_level_mean.hpp): what crosses regions is one row for each of them. Regions list all peers, hubs first. Where there
/// are none, and so where peers come and go, each peer says in every exchange in which one it is, and the first of those
/// who are there is the hub.
template <class Across = split_mean<>, class Up = compress::none, class Down = Up>
struct two_level_mean {
  using codec_type = compress::as_message<Up>;
  using down_type = compress::as_message<Down>;
  using type = collective::two_level_mean<codec_type, typename Across::type, down_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  collective::region_list regions{};
  Across across{};
  Up up{};
  Down down{};
  collective::region_label label{};

  [[nodiscard]] type make(std::size_t fragment = 0) const {
    type made{regions, across.make(fragment), codec_type{up}, down_type{down}};
    if (regions.size() == 0) made.set_label(label);
    return made;
  }
};

static_assert(ExchangeRecipe<all_reduce<>> && ExchangeRecipe<gather_mean<>> && ExchangeRecipe<split_mean<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_EXCHANGE_HPP

// ---- causeway/axis/own_sum_mean.hpp ----
#ifndef CAUSEWAY_AXIS_OWN_SUM_MEAN_HPP
#define CAUSEWAY_AXIS_OWN_SUM_MEAN_HPP

// A mean that the transport adds up by itself, where it can. Apart from exchange.hpp, so that only who asks for it compiles
// it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// By the transport's own sums of f32, such as MPI's (collective/own_sum_mean.hpp); by messages, as split_mean<>, where it
/// has none.
struct own_sum_mean {
  using type = collective::own_sum_mean<collective::split_mean<compress::as_message<compress::none>>>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  [[nodiscard]] type make(std::size_t = 0) const { return type{}; }
};

static_assert(ExchangeRecipe<own_sum_mean>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_OWN_SUM_MEAN_HPP

// ---- causeway/tcp.hpp ----
#ifndef CAUSEWAY_TCP_HPP
#define CAUSEWAY_TCP_HPP

// To meet other peers over TCP, and the exchanges themselves: transports, rendezvous, collectives.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#if !(__has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__))
#error "causeway/tcp.hpp needs standalone asio (Debian: libasio-dev), and a compiler other than nvcc"
#endif

#if defined(CAUSEWAY_HAS_MPI)

// ---- causeway/net/mpi_world.hpp ----
#ifndef CAUSEWAY_NET_MPI_WORLD_HPP
#define CAUSEWAY_NET_MPI_WORLD_HPP

// The ranks of an MPI job (mpirun, srun): who they are, on which hosts, and groups of them. What they say to each other is
// in net/mpi_transport.hpp and collective/mpi_site.hpp. Link causeway::mpi.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
struct mpi_communicator;  // net/mpi_library.hpp
}

struct mpi_options {
  /// The longest that a rank waits for others of its group where all of them must come. One that exchanges with other sites
  /// comes late to its own, so this must be longer than such an exchange.
  duration patience = std::chrono::minutes{10};
  any_clock clock{};  ///< what deadlines are measured on
};

/// Ranks that were started together, or some of them. Copies name the same ones. All calls come from the thread that
/// entered. A rank that dies, or ends without `leave`, makes the launcher end the job: whatever must live on is another
/// job.
class mpi_world {
 public:
  /// Starts MPI in this process, once, and gives all ranks of the job. Never aborts: MPI's errors become ours.
  /// errc::invalid_argument: the launcher belongs to another MPI than the one that this program is linked with, so that
  /// each process would be alone.
  CAUSEWAY_DECL [[nodiscard]] static result<mpi_world> enter(const mpi_options& options = {});

  CAUSEWAY_DECL [[nodiscard]] std::uint32_t rank() const;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t size() const;
  /// "Open MPI 4.1.4", "MPICH 4.0.2".
  CAUSEWAY_DECL [[nodiscard]] static std::string library();

  /// The host of each rank, by rank. All ranks call it.
  CAUSEWAY_DECL [[nodiscard]] result<std::vector<std::string>> hosts() const;

  /// The ranks that give the same `part`, in the order of their ranks here. All ranks call it.
  CAUSEWAY_DECL [[nodiscard]] result<mpi_world> split(std::uint32_t part) const;

  /// A text of rank `from`, on all ranks. All ranks call it.
  CAUSEWAY_DECL [[nodiscard]] result<std::string> tell(std::uint32_t from, const std::string& text) const;

  /// Whether all ranks came through what they did each for itself. All ranks call it with what came of that, and all get
  /// the same: nothing, or the error of one of them: of the first whose error is not that it lost another. `where` begins
  /// with the rank where some ranks have no error. `from`: that rank.
  CAUSEWAY_DECL [[nodiscard]] result<void> agree(const result<void>& mine, std::uint32_t* from = nullptr) const;

  /// A function that ends all waits, from any thread, with errc::cancelled. MPI is not usable after that.
  CAUSEWAY_DECL [[nodiscard]] std::function<void()> interrupter() const;

  /// Ends MPI in this process when all went well; all ranks of the job call it, after they have destroyed their transports
  /// and sites. Without it, the launcher takes the end of the process for a failure and ends the others: which is right
  /// after an error. `at_most`: how long to wait for the others, if not `patience`.
  CAUSEWAY_DECL [[nodiscard]] result<void> leave(duration at_most = duration::max()) const;

  /// For those who call MPI themselves, through net/mpi_library.hpp.
  [[nodiscard]] const std::shared_ptr<detail::mpi_communicator>& line() const noexcept { return line_; }
  [[nodiscard]] duration patience() const noexcept { return patience_; }

 private:
  CAUSEWAY_DECL mpi_world(std::shared_ptr<detail::mpi_communicator> line, duration patience);

  /// All are here, or have not come in time: what blocks afterwards does not block for ever.
  CAUSEWAY_DECL [[nodiscard]] result<void> meet(duration at_most = duration::max()) const;

  std::shared_ptr<detail::mpi_communicator> line_;
  duration patience_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MPI_WORLD_HPP

// ---- causeway/net/mpi_library.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_MPI_LIBRARY_HPP
#define CAUSEWAY_NET_MPI_LIBRARY_HPP

// What the bodies that call MPI have in common: the process's one MPI, a communicator, and waiting with a deadline. MPI has
// no deadlines, cannot take a message back, and frees no buffer before its operation has ended. So the first operation that
// does not end in time is the last: from then on nobody here calls MPI again, which is what moves bytes in this process.

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Most that one MPI call is given: its counts are ints, and Open MPI before 5.0 has no others.
inline constexpr std::size_t most_at_once = std::size_t{1} << 30U;

/// MPI as this process has it. `failure`: what ended its use.
struct mpi_process {
  std::optional<error> failure{};
  bool left = false;
  std::atomic<bool> interrupted{false};

  [[nodiscard]] bool usable() const { return !failure && !left; }
  const error& fail_for_good(error why) {
    if (!failure) failure.emplace(std::move(why));
    return *failure;
  }
};

/// Some ranks that talk to each other. Never freed: freeing waits for all of them, and MPI_Finalize does it.
struct mpi_communicator {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::shared_ptr<mpi_process> process;
  any_clock clock{};
};

/// Our error for a code of MPI's other than MPI_SUCCESS.
inline error mpi_failure(int code, std::string where) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return fail(errc::peer_lost, std::move(where), "MPI: " + std::string(text, static_cast<std::size_t>(length)));
}

inline result<void> mpi_check(int code, const char* where) {
  if (code == MPI_SUCCESS) return {};
  return mpi_failure(code, where);
}

/// Between two looks that found nothing new: at first at once again, then after the others on this core had their turn,
/// at last after a sleep that grows to a millisecond, so that ranks that wait leave the cores to ranks that compute.
class mpi_pause {
 public:
  void reset() noexcept { looks_ = 0; }
  void operator()() {
    ++looks_;
    if (looks_ <= eager) return;
    if (looks_ <= patient) return std::this_thread::yield();
    const int more = std::min(looks_ - patient, 20);
    std::this_thread::sleep_for(std::chrono::microseconds{50 * more});
  }

 private:
  static constexpr int eager = 20, patient = 2000;
  int looks_ = 0;
};

inline error mpi_timeout(std::string where, duration patience) {
  return fail(errc::timeout, std::move(where),
              "no answer within " + std::to_string(static_cast<long>(seconds(patience))) +
                  " s; a rank of this site is lost or far behind, and the site must be started anew");
}

/// Looks until `done(pause)` is true: whether it was before the deadline. `done` resets the pause where something moved; an
/// error of it ends all.
template <class Done>
result<bool> mpi_poll(const any_clock& clock, const mpi_process& process, time_point deadline, Done&& done) {
  for (mpi_pause pause;; pause()) {
    CAUSEWAY_ASSIGN(const bool now, done(pause));
    if (now) return true;
    if (process.interrupted.load(std::memory_order_relaxed)) return fail(errc::cancelled, "MPI", "stopped on request");
    if (clock.now() >= deadline) return false;
  }
}

/// Waits for one request, whose memory MPI keeps if it does not end: then the use of MPI ends.
inline result<void> mpi_wait(mpi_communicator& line, MPI_Request& request, duration patience, const char* where) {
  const time_point deadline = line.clock.now() + patience;
  const auto ended = mpi_poll(line.clock, *line.process, deadline, [&](mpi_pause&) -> result<bool> {
    int flag = 0;
    CAUSEWAY_TRY(mpi_check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), where));
    return flag != 0;
  });
  if (!ended) return line.process->fail_for_good(ended.error());
  if (!*ended) return line.process->fail_for_good(mpi_timeout(where, patience));
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_MPI_LIBRARY_HPP
#endif

// ---- causeway/net/impl/mpi_world.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_MPI_WORLD_IPP
#define CAUSEWAY_NET_IMPL_MPI_WORLD_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

/// How many ranks a launcher's variable says that there are; 0 where it says nothing.
inline int ranks_by(const char* variable) {
  const char* const text = std::getenv(variable);
  int value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

/// A launcher of another MPI starts processes that find no others.
inline result<void> check_launcher(int size) {
  if (size != 1) return {};
  const struct {
    const char *variable, *launcher;
  } launchers[] = {{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
                   {"PMI_SIZE", "MPICH's mpirun, or a srun that speaks PMI,"}};
  for (const auto& [variable, launcher] : launchers) {
    const int ranks = ranks_by(variable);
    if (ranks <= 1) continue;
    return fail(errc::invalid_argument, "MPI",
                std::string{launcher} + " started " + std::to_string(ranks) + " ranks, but this program is linked with " +
                    mpi_world::library() +
                    " and finds itself alone; start it with the mpirun of that, or build it with the other");
  }
  return {};
}

inline result<std::shared_ptr<mpi_process>> start_mpi() {
  static const auto process = std::make_shared<mpi_process>();
  if (process->left) return fail(errc::unsupported, "MPI", "was left before; a process can enter it once");
  int running = 0, level = 0;
  CAUSEWAY_TRY(mpi_check(MPI_Initialized(&running), "MPI"));
  if (running == 0) CAUSEWAY_TRY(mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "starting MPI"));
  return process;
}

inline result<void> identify(mpi_communicator& line) {
  CAUSEWAY_TRY(mpi_check(MPI_Comm_set_errhandler(line.handle, MPI_ERRORS_RETURN), "MPI"));
  CAUSEWAY_TRY(mpi_check(MPI_Comm_rank(line.handle, &line.rank), "MPI"));
  return mpi_check(MPI_Comm_size(line.handle, &line.size), "MPI");
}

}  // namespace detail

CAUSEWAY_DECL mpi_world::mpi_world(std::shared_ptr<detail::mpi_communicator> line, duration patience)
    : line_{std::move(line)}, patience_{patience} {}

CAUSEWAY_DECL result<mpi_world> mpi_world::enter(const mpi_options& options) {
  auto line = std::make_shared<detail::mpi_communicator>();
  CAUSEWAY_ASSIGN(line->process, detail::start_mpi());
  line->handle = MPI_COMM_WORLD;
  line->clock = options.clock;
  CAUSEWAY_TRY(detail::identify(*line));
  CAUSEWAY_TRY(detail::check_launcher(line->size));
  return mpi_world{std::move(line), options.patience};
}

CAUSEWAY_DECL std::uint32_t mpi_world::rank() const { return static_cast<std::uint32_t>(line_->rank); }
CAUSEWAY_DECL std::uint32_t mpi_world::size() const { return static_cast<std::uint32_t>(line_->size); }

CAUSEWAY_DECL std::string mpi_world::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "an unknown MPI";
  std::string_view all{text, static_cast<std::size_t>(length)};
  all = all.substr(0, all.find_first_of(",\n"));
  if (all.starts_with("MPICH")) {
    const auto number = all.find_first_of("0123456789");
    return "MPICH " + std::string{number == all.npos ? "" : all.substr(number)};
  }
  const auto version = all.find(" v");
  if (!all.starts_with("Open MPI") || version == all.npos) return std::string{all};
  return "Open MPI " + std::string{all.substr(version + 2)};
}

CAUSEWAY_DECL result<void> mpi_world::meet(duration at_most) const {
  if (line_->process->failure) return *line_->process->failure;
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Ibarrier(line_->handle, &request), "meeting the ranks of the job"));
  return detail::mpi_wait(*line_, request, std::min(patience_, at_most), "meeting the ranks of the job");
}

CAUSEWAY_DECL result<std::vector<std::string>> mpi_world::hosts() const {
  constexpr int room = MPI_MAX_PROCESSOR_NAME;
  char own[room] = "";
  int length = 0;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Get_processor_name(own, &length), "the name of this host"));
  std::vector<char> all(static_cast<std::size_t>(room) * size());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Iallgather(own, room, MPI_CHAR, all.data(), room, MPI_CHAR, line_->handle, &request),
                                 "the names of all hosts"));
  CAUSEWAY_TRY(detail::mpi_wait(*line_, request, patience_, "the names of all hosts"));
  std::vector<std::string> names;
  for (std::uint32_t r = 0; r < size(); ++r) names.emplace_back(all.data() + static_cast<std::size_t>(room) * r);
  return names;
}

CAUSEWAY_DECL result<mpi_world> mpi_world::split(std::uint32_t part) const {
  CAUSEWAY_TRY(meet());
  auto line = std::make_shared<detail::mpi_communicator>(*line_);
  CAUSEWAY_TRY(detail::mpi_check(MPI_Comm_split(line_->handle, static_cast<int>(part), line_->rank, &line->handle),
                                 "grouping the ranks of the job"));
  CAUSEWAY_TRY(detail::identify(*line));
  return mpi_world{std::move(line), patience_};
}

CAUSEWAY_DECL result<std::string> mpi_world::tell(std::uint32_t from, const std::string& text) const {
  const auto broadcast = [&](void* data, std::size_t bytes) -> result<void> {
    MPI_Request request = MPI_REQUEST_NULL;
    CAUSEWAY_TRY(detail::mpi_check(
        MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(from), line_->handle, &request),
        "a word to all ranks"));
    return detail::mpi_wait(*line_, request, patience_, "a word to all ranks");
  };
  std::uint64_t length = text.size();
  CAUSEWAY_TRY(broadcast(&length, sizeof length));
  if (length > detail::most_at_once) return fail(errc::too_large, "a word to all ranks", "is longer than 1 GiB");
  std::string told = rank() == from ? text : std::string(length, '\0');
  CAUSEWAY_TRY(broadcast(told.data(), length));
  return told;
}

CAUSEWAY_DECL result<void> mpi_world::agree(const result<void>& mine, std::uint32_t* from) const {
  if (line_->process->failure) return *line_->process->failure;
  constexpr int none = 0, lost = static_cast<int>(errc::peer_lost);  // numbers of errors begin at 1
  const int own = mine ? none : static_cast<int>(mine.error().code);
  std::vector<int> codes(size());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Iallgather(&own, 1, MPI_INT, codes.data(), 1, MPI_INT, line_->handle, &request),
                                 "asking all ranks whether they are well"));
  CAUSEWAY_TRY(detail::mpi_wait(*line_, request, patience_, "asking all ranks whether they are well"));
  auto first = std::find_if(codes.begin(), codes.end(), [](int code) { return code != none && code != lost; });
  if (first == codes.end()) first = std::find(codes.begin(), codes.end(), lost);
  if (first == codes.end()) return {};
  const auto teller = static_cast<std::uint32_t>(first - codes.begin());
  if (from != nullptr) *from = teller;
  CAUSEWAY_ASSIGN(std::string where, tell(teller, mine ? "" : mine.error().where));
  CAUSEWAY_ASSIGN(const std::string message, tell(teller, mine ? "" : mine.error().message));
  if (std::count(codes.begin(), codes.end(), none) > 0) where = "rank " + std::to_string(teller) + ": " + where;
  return fail(static_cast<errc>(*first), where, message);
}

CAUSEWAY_DECL std::function<void()> mpi_world::interrupter() const {
  return [process = line_->process] { process->interrupted = true; };
}

CAUSEWAY_DECL result<void> mpi_world::leave(duration at_most) const {
  detail::mpi_process& process = *line_->process;
  if (process.left) return {};
  CAUSEWAY_TRY(meet(at_most));  // to finalize blocks until all do
  process.left = true;
  return detail::mpi_check(MPI_Finalize(), "leaving MPI");
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_MPI_WORLD_IPP
#endif

// ---- causeway/net/mpi_transport.hpp ----
#ifndef CAUSEWAY_NET_MPI_TRANSPORT_HPP
#define CAUSEWAY_NET_MPI_TRANSPORT_HPP

// The Transport among the ranks of an MPI job: nonblocking point-to-point messages of MPI, whatever carries them (shared
// memory, InfiniBand, TCP). A message is a word that names it, and its content beside it; what is short travels in the
// word. Link causeway::mpi.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
class mpi_engine;  // it has MPI's own types
}

/// Peer i is rank i of the world that it is opened in. Models Transport; all calls come from the thread that entered MPI.
///
/// Progress: bytes move while this rank waits, looks (`done`) or starts something, and not while it computes: MPI has no
/// thread of its own. What was sent before a computation and is short, or fits MPI's buffers, arrives nevertheless.
///
/// Deadlines: a receive that nobody has answered ends at its deadline, and all goes on. MPI cannot take back bytes that it
/// is moving, or that it has been given to send. If such an operation does not end within `close_grace` after its deadline,
/// the use of MPI ends: each later operation fails with the same error, so that the memory is not touched again. A sum is
/// such an operation: no rank can leave it alone.
class mpi_transport {
 public:
  /// All ranks of `world` call it; several transports in one world do not disturb each other.
  CAUSEWAY_DECL [[nodiscard]] static result<mpi_transport> open(const mpi_world& world,
                                                                const mpi_transport_options& options = {});

  CAUSEWAY_DECL [[nodiscard]] peer_index self() const noexcept;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t size() const noexcept;
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  /// errc::invalid_argument: the operation was waited for before, or names the peer itself. Other errors: see Transport.
  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);
  CAUSEWAY_DECL [[nodiscard]] bool done(operation op) const;
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);
  CAUSEWAY_DECL [[nodiscard]] bool sums() const noexcept;
  /// See SumsItself. Bytes move while this rank waits, looks or starts something, as those of messages.
  CAUSEWAY_DECL operation sum(std::span<float> data);
  /// Content and names, as they were given to MPI; of a sum of n ranks, the 2 (n-1)/n of its size that it takes at least.
  CAUSEWAY_DECL [[nodiscard]] traffic stats() const;

  /// One line per unfinished operation. Empty when there is none. From the transport's own thread, as all.
  CAUSEWAY_DECL [[nodiscard]] std::string describe_waits() const;

 private:
  CAUSEWAY_DECL explicit mpi_transport(std::shared_ptr<detail::mpi_engine> engine);

  std::shared_ptr<detail::mpi_engine> engine_;
};
static_assert(SumsItself<mpi_transport>);

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MPI_TRANSPORT_HPP

// ---- causeway/net/mpi_engine.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_MPI_ENGINE_HPP
#define CAUSEWAY_NET_MPI_ENGINE_HPP

// What is behind net::mpi_transport: messages as words that name them and pieces that carry them, requests of MPI that are
// under way, and sums. Only bodies include it: it has MPI's own types.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of one rank. As the transport: one thread.
class mpi_engine {
 public:
  CAUSEWAY_DECL mpi_engine(mpi_communicator line, const mpi_transport_options& options);
  mpi_engine(const mpi_engine&) = delete;
  mpi_engine& operator=(const mpi_engine&) = delete;
  ~mpi_engine();

  CAUSEWAY_DECL result<void> open();
  [[nodiscard]] peer_index self() const { return static_cast<peer_index>(line_.rank); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(line_.size); }
  CAUSEWAY_DECL operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes);
  CAUSEWAY_DECL operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer);
  CAUSEWAY_DECL operation sum(std::span<float> data);
  [[nodiscard]] bool sums() const { return options_.own_sums; }
  CAUSEWAY_DECL result<std::size_t> wait(operation op, time_point deadline);
  CAUSEWAY_DECL bool done(operation op);
  CAUSEWAY_DECL bool wait_any(std::span<const operation> ops, time_point deadline);
  [[nodiscard]] traffic stats() const { return counters_; }
  CAUSEWAY_DECL [[nodiscard]] std::string describe() const;

 private:
  /// What a message is, ahead of its content. Ranks of a job run the same program on the same kind of machine.
  struct word {
    message_id id;
    std::uint64_t length = 0;
    std::uint64_t first = 0;  ///< the number of its first piece among all that its sender ever sent
    std::uint64_t inlined = 0;
  };

  /// One whose word is here, and which no receive has taken.
  struct message {
    peer_index from = 0;
    word named;
    std::vector<std::byte> bytes{};
    std::size_t missing = 0;     ///< bytes that are under way to `bytes`
    bool here = false;           ///< `bytes` has, or will have, the content; else it is still with its sender
    slot_index taker = no_slot;  ///< a receive that waits for the content
    bool dropped = false;        ///< nobody wants it; its content is taken in all the same, so that its sender can go on
  };
  using messages = std::list<message>;

  /// What a request of MPI is for; one of the three.
  struct flight {
    std::vector<std::byte> own{};  ///< a word under way
    slot_index slot = no_slot;     ///< part of this operation
    message* kept = nullptr;       ///< part of this message
    std::size_t bytes = 0;
  };

  static constexpr int word_tag = 0;
  static bool matches(const message_id& a, const message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  [[nodiscard]] int tag_of(std::uint64_t piece) const { return 1 + static_cast<int>(piece % tags_); }
  CAUSEWAY_DECL operation refuse(const pending_operation& what, error why);
  CAUSEWAY_DECL result<void> hear();
  CAUSEWAY_DECL result<void> send_word(peer_index to, const word& named, std::span<const std::byte> inlined);
  template <class Start>
  result<void> start_pieces(const word& named, std::size_t length, slot_index slot, message* kept, Start&& start);
  CAUSEWAY_DECL result<void> take_in(peer_index from, const word& named, std::byte* into, slot_index slot, message* kept);
  CAUSEWAY_DECL result<void> keep(peer_index from, const word& named, const std::byte* inlined);
  CAUSEWAY_DECL result<void> fetch(message& m);
  CAUSEWAY_DECL result<void> offer(messages::iterator m);
  CAUSEWAY_DECL result<void> deliver(messages::iterator m, slot_index slot);
  CAUSEWAY_DECL void hand_over(messages::iterator m);
  CAUSEWAY_DECL void refuse_message(messages::iterator m, slot_index slot, errc code, std::string why);
  CAUSEWAY_DECL result<bool> progress();
  result<void> look(mpi_pause& pause) {
    CAUSEWAY_ASSIGN(const bool moved, progress());
    if (moved) pause.reset();
    return {};
  }
  CAUSEWAY_DECL result<bool> take_words();
  CAUSEWAY_DECL result<bool> end_flights();
  CAUSEWAY_DECL void ended(const flight& f);
  CAUSEWAY_DECL result<std::size_t> give_up(slot_index slot, error why);

  mpi_communicator line_;
  mpi_transport_options options_;
  std::uint64_t tags_ = 1;
  operation_table table_;
  std::vector<slot_index> waiting_;  ///< receives that no message has answered, oldest first
  messages kept_;
  std::size_t kept_size_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<flight> flights_;  ///< of requests_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::byte> heard_;
  MPI_Request hearing_ = MPI_REQUEST_NULL;
  std::uint64_t pieces_ = 0;
  traffic counters_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_MPI_ENGINE_HPP
#endif

// ---- causeway/net/impl/mpi_transport.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_MPI_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_MPI_TRANSPORT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL mpi_transport::mpi_transport(std::shared_ptr<detail::mpi_engine> engine) : engine_{std::move(engine)} {}

CAUSEWAY_DECL result<mpi_transport> mpi_transport::open(const mpi_world& world, const mpi_transport_options& options) {
  detail::mpi_communicator line = *world.line();
  if (!line.process->usable()) return fail(errc::peer_lost, "MPI", "is not usable any more; start the job anew");
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm own = MPI_COMM_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Comm_idup(line.handle, &own, &request), "opening a transport"));
  CAUSEWAY_TRY(detail::mpi_wait(line, request, world.patience(), "opening a transport"));
  line.handle = own;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "opening a transport"));
  auto engine = std::make_shared<detail::mpi_engine>(std::move(line), options);
  CAUSEWAY_TRY(engine->open());
  return mpi_transport{std::move(engine)};
}

CAUSEWAY_DECL peer_index mpi_transport::self() const noexcept { return engine_->self(); }
CAUSEWAY_DECL std::uint32_t mpi_transport::size() const noexcept { return engine_->size(); }

CAUSEWAY_DECL operation mpi_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return engine_->send(to, id, bytes);
}

CAUSEWAY_DECL operation mpi_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return engine_->receive(from, id, buffer);
}

CAUSEWAY_DECL bool mpi_transport::sums() const noexcept { return engine_->sums(); }
CAUSEWAY_DECL operation mpi_transport::sum(std::span<float> data) { return engine_->sum(data); }

CAUSEWAY_DECL result<std::size_t> mpi_transport::wait(operation op, time_point deadline) {
  return engine_->wait(op, deadline);
}

CAUSEWAY_DECL bool mpi_transport::done(operation op) const { return engine_->done(op); }

CAUSEWAY_DECL bool mpi_transport::wait_any(std::span<const operation> ops, time_point deadline) {
  return engine_->wait_any(ops, deadline);
}
CAUSEWAY_DECL traffic mpi_transport::stats() const { return engine_->stats(); }
CAUSEWAY_DECL std::string mpi_transport::describe_waits() const { return engine_->describe(); }

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_MPI_TRANSPORT_IPP
#endif

// ---- causeway/net/impl/mpi_engine.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_NET_IMPL_MPI_ENGINE_IPP
#define CAUSEWAY_NET_IMPL_MPI_ENGINE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL mpi_engine::mpi_engine(mpi_communicator line, const mpi_transport_options& options)
    : line_{std::move(line)}, options_{options}, heard_(sizeof(word) + options.inline_bytes) {}

CAUSEWAY_DECL result<void> mpi_engine::open() {
  void* bound = nullptr;
  int known = 0;
  CAUSEWAY_TRY(mpi_check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &known), "MPI's tags"));
  tags_ = static_cast<std::uint64_t>(known != 0 ? *static_cast<int*>(bound) : 32767);
  return hear();
}

CAUSEWAY_DECL result<void> mpi_engine::hear() {
  return mpi_check(MPI_Irecv(heard_.data(), static_cast<int>(heard_.size()), MPI_BYTE, MPI_ANY_SOURCE, word_tag,
                             line_.handle, &hearing_),
                   "hearing the other ranks");
}

// What was said and not waited for, such as words, still has to go out.
CAUSEWAY_INLINE mpi_engine::~mpi_engine() {
  if (!line_.process->usable()) return;
  const time_point deadline = line_.clock.now() + options_.close_grace;
  const auto gone = mpi_poll(line_.clock, *line_.process, deadline, [&](mpi_pause& pause) -> result<bool> {
    CAUSEWAY_TRY(look(pause));
    return requests_.empty();
  });
  if (!gone || !*gone) {
    line_.process->fail_for_good(fail(errc::peer_lost, "MPI", "another rank did not take what was sent before the end"));
    return;
  }
  (void)MPI_Cancel(&hearing_);
  (void)MPI_Wait(&hearing_, MPI_STATUS_IGNORE);
}

CAUSEWAY_DECL operation mpi_engine::refuse(const pending_operation& what, error why) {
  const slot_index slot = table_.start(what);
  table_.finish(slot, std::move(why));
  return table_.handle(slot);
}

CAUSEWAY_DECL operation mpi_engine::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  pending_operation what{.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()};
  if (to == self() || to >= size())
    return refuse(what, fail(errc::invalid_argument, peer_name(to), "no such peer, or the peer itself"));
  if (line_.process->failure) return refuse(what, *line_.process->failure);
  const slot_index slot = table_.start(what);
  const word named{id, bytes.size(), pieces_, bytes.size() <= options_.inline_bytes};
  counters_.bytes_sent += bytes.size() + sizeof(word);
  ++counters_.frames_sent;
  result<void> started = send_word(to, named, named.inlined != 0 ? bytes : std::span<const std::byte>{});
  if (started && named.inlined == 0) {
    started = start_pieces(named, bytes.size(), slot, nullptr, [&](std::size_t at, int count, int tag, MPI_Request* r) {
      return MPI_Isend(bytes.data() + at, count, MPI_BYTE, static_cast<int>(to), tag, line_.handle, r);
    });
    pieces_ += (bytes.size() + most_at_once - 1) / most_at_once;
  } else if (started) {
    table_[slot].moved = bytes.size();
    table_.finish(slot);
  }
  if (!started) table_.finish(slot, line_.process->fail_for_good(started.error()));
  return table_.handle(slot);
}

CAUSEWAY_DECL operation mpi_engine::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  pending_operation what{.peer = from, .id = id, .target = buffer.data(), .length = buffer.size()};
  if (from == self() || from >= size())
    return refuse(what, fail(errc::invalid_argument, peer_name(from), "no such peer, or the peer itself"));
  if (line_.process->failure) return refuse(what, *line_.process->failure);
  const slot_index slot = table_.start(what);
  const auto m = std::find_if(kept_.begin(), kept_.end(), [&](const message& k) {
    return k.from == from && k.taker == no_slot && !k.dropped && matches(k.named.id, id);
  });
  if (m == kept_.end()) {
    waiting_.push_back(slot);
  } else if (auto delivered = deliver(m, slot); !delivered) {
    table_.finish(slot, line_.process->fail_for_good(delivered.error()));
  }
  return table_.handle(slot);
}

// Of the own length, as a send; its peer is this one, which no message has.
CAUSEWAY_DECL operation mpi_engine::sum(std::span<float> data) {
  pending_operation what{.is_send = true, .peer = self(), .length = data.size_bytes()};
  if (line_.process->failure) return refuse(what, *line_.process->failure);
  const slot_index slot = table_.start(what);
  const auto started =
      start_pieces(word{}, data.size_bytes(), slot, nullptr, [&](std::size_t at, int bytes, int, MPI_Request* r) {
        return MPI_Iallreduce(MPI_IN_PLACE, data.data() + at / sizeof(float), bytes / static_cast<int>(sizeof(float)),
                              MPI_FLOAT, MPI_SUM, line_.handle, r);
      });
  const std::size_t moves = 2 * data.size_bytes() / size() * (size() - 1);
  counters_.bytes_sent += moves;
  counters_.bytes_received += moves;
  if (data.empty()) table_.finish(slot);
  if (!started) table_.finish(slot, line_.process->fail_for_good(started.error()));
  return table_.handle(slot);
}

CAUSEWAY_DECL result<void> mpi_engine::send_word(peer_index to, const word& named, std::span<const std::byte> inlined) {
  std::vector<std::byte> text(sizeof named + inlined.size());
  std::memcpy(text.data(), &named, sizeof named);
  if (!inlined.empty()) std::memcpy(text.data() + sizeof named, inlined.data(), inlined.size());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(mpi_check(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, static_cast<int>(to), word_tag,
                                   line_.handle, &request),
                         "sending"));
  requests_.push_back(request);
  flights_.push_back({.own = std::move(text)});
  return {};
}

/// One request for each GiB.
template <class Start>
result<void> mpi_engine::start_pieces(const word& named, std::size_t length, slot_index slot, message* kept,
                                      Start&& start) {
  std::uint64_t piece = named.first;
  for (std::size_t at = 0; at < length; at += most_at_once) {
    const std::size_t bytes = std::min(most_at_once, length - at);
    MPI_Request request = MPI_REQUEST_NULL;
    CAUSEWAY_TRY(mpi_check(start(at, static_cast<int>(bytes), tag_of(piece++), &request), "moving a message"));
    requests_.push_back(request);
    flights_.push_back({.slot = slot, .kept = kept, .bytes = bytes});
  }
  return {};
}

CAUSEWAY_DECL result<void> mpi_engine::take_in(peer_index from, const word& named, std::byte* into, slot_index slot,
                                               message* kept) {
  return start_pieces(named, named.length, slot, kept, [&](std::size_t at, int count, int tag, MPI_Request* r) {
    return MPI_Irecv(into + at, count, MPI_BYTE, static_cast<int>(from), tag, line_.handle, r);
  });
}

CAUSEWAY_DECL result<void> mpi_engine::keep(peer_index from, const word& named, const std::byte* inlined) {
  counters_.bytes_received += named.length + sizeof(word);
  ++counters_.frames_received;
  kept_.push_back({.from = from, .named = named});
  const auto m = std::prev(kept_.end());
  if (named.inlined != 0) {
    m->here = true;
    m->bytes.assign(inlined, inlined + named.length);
    kept_size_ += named.length;
  }
  return offer(m);
}

// To the receive that has waited the longest. Else its content is taken in where there is room, so that its sender can go
// on.
CAUSEWAY_DECL result<void> mpi_engine::offer(messages::iterator m) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](slot_index s) {
    return table_[s].peer == m->from && matches(table_[s].id, m->named.id);
  });
  if (found != waiting_.end()) {
    const slot_index slot = *found;
    waiting_.erase(found);
    return deliver(m, slot);
  }
  if (m->here || kept_size_ + m->named.length > options_.kept_bytes) return {};
  return fetch(*m);
}

// The content of a message that is still with its sender.
CAUSEWAY_DECL result<void> mpi_engine::fetch(message& m) {
  m.here = true;
  m.missing = m.named.length;
  m.bytes.resize(m.named.length);
  kept_size_ += m.named.length;
  return take_in(m.from, m.named, m.bytes.data(), no_slot, &m);
}

CAUSEWAY_DECL result<void> mpi_engine::deliver(messages::iterator m, slot_index slot) {
  pending_operation& op = table_[slot];
  if (m->named.id.parent != op.id.parent) {
    refuse_message(m, slot, errc::wrong_parent, "its message is based on another committed state than ours");
  } else if (m->named.length > op.length) {
    refuse_message(m, slot, errc::too_large,
                   "it sent " + std::to_string(m->named.length) + " bytes where at most " + std::to_string(op.length) +
                       " are expected");
  } else if (m->here) {
    m->taker = slot;
    if (m->missing == 0) hand_over(m);
    return {};
  } else {
    const message taken = std::move(*m);
    kept_.erase(m);
    op.taken = taken.named.length;  // how much is coming: `length` is the room
    return take_in(taken.from, taken.named, op.target, slot, nullptr);
  }
  if (!m->dropped || m->here) return {};
  return fetch(*m);  // to be thrown away
}

CAUSEWAY_DECL void mpi_engine::hand_over(messages::iterator m) {
  if (m->taker != no_slot) {
    pending_operation& op = table_[m->taker];
    if (!m->bytes.empty()) std::memcpy(op.target, m->bytes.data(), m->bytes.size());
    op.moved = m->bytes.size();
    table_.finish(m->taker);
  }
  kept_size_ -= m->bytes.size();
  kept_.erase(m);
}

CAUSEWAY_DECL void mpi_engine::refuse_message(messages::iterator m, slot_index slot, errc code, std::string why) {
  ++counters_.frames_rejected;
  table_.finish(slot, fail(code, peer_name(m->from), std::move(why)));
  m->dropped = true;
  if (m->here && m->missing == 0) hand_over(m);
}

CAUSEWAY_DECL result<bool> mpi_engine::progress() {
  if (line_.process->failure) return *line_.process->failure;
  auto moved = take_words();
  if (moved) {
    auto more = end_flights();
    if (!more || *more) moved = std::move(more);
  }
  if (!moved) return line_.process->fail_for_good(moved.error());
  return moved;
}

CAUSEWAY_DECL result<bool> mpi_engine::take_words() {
  for (bool moved = false;; moved = true) {
    int flag = 0;
    MPI_Status status;
    CAUSEWAY_TRY(mpi_check(MPI_Test(&hearing_, &flag, &status), "hearing the other ranks"));
    if (flag == 0) return moved;
    word named;
    std::memcpy(&named, heard_.data(), sizeof named);
    CAUSEWAY_TRY(keep(static_cast<peer_index>(status.MPI_SOURCE), named, heard_.data() + sizeof named));
    CAUSEWAY_TRY(hear());
  }
}

CAUSEWAY_DECL result<bool> mpi_engine::end_flights() {
  if (requests_.empty()) return false;
  const auto count = static_cast<int>(requests_.size());
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int ended_now = 0;
  const int code = MPI_Testsome(count, requests_.data(), &ended_now, indices_.data(), statuses_.data());
  CAUSEWAY_TRY(mpi_check(code, "moving messages"));
  if (ended_now <= 0) return false;
  std::sort(indices_.begin(), indices_.begin() + ended_now, std::greater<>{});  // the last one takes the place of each
  for (int i = 0; i < ended_now; ++i) {
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    const flight f = std::move(flights_[at]);
    flights_[at] = std::move(flights_.back());
    requests_[at] = requests_.back();
    flights_.pop_back();
    requests_.pop_back();
    ended(f);
  }
  return true;
}

CAUSEWAY_DECL void mpi_engine::ended(const flight& f) {
  if (f.slot != no_slot) {
    pending_operation& op = table_[f.slot];
    op.moved += f.bytes;
    if (op.moved == (op.is_send ? op.length : op.taken)) table_.finish(f.slot);
  } else if (f.kept != nullptr) {
    f.kept->missing -= f.bytes;
    if (f.kept->missing > 0 || (f.kept->taker == no_slot && !f.kept->dropped)) return;
    hand_over(std::find_if(kept_.begin(), kept_.end(), [&](const message& m) { return &m == f.kept; }));
  }
}

CAUSEWAY_DECL result<std::size_t> mpi_engine::wait(operation wanted, time_point deadline) {
  const slot_index slot = table_.find(wanted);
  if (slot == no_slot) {
    return fail(errc::invalid_argument, peer_name(self()), "waited for an operation that is not under way");
  }
  if (!table_.done(wanted)) {
    const auto ended = mpi_poll(line_.clock, *line_.process, deadline, [&](mpi_pause& pause) -> result<bool> {
      CAUSEWAY_TRY(look(pause));
      return table_[slot].done;
    });
    if (!ended) return give_up(slot, ended.error());
    if (!*ended) {
      const peer_index peer = table_[slot].peer;
      return give_up(slot, peer == self() ? fail(errc::timeout, "a sum of all ranks",
                                                 "not all have come to it before the deadline; raise it or look at them")
                                          : fail(errc::timeout, peer_name(peer),
                                                 "no answer before the deadline; raise it or look at that peer"));
    }
  }
  return table_.release(slot);
}

// A receive that no bytes are on the way to is forgotten. What MPI holds must end, or be the last.
CAUSEWAY_DECL result<std::size_t> mpi_engine::give_up(slot_index slot, error why) {
  const auto unanswered = std::find(waiting_.begin(), waiting_.end(), slot);
  const auto taken = std::find_if(kept_.begin(), kept_.end(), [&](const message& m) { return m.taker == slot; });
  if (unanswered != waiting_.end()) {
    waiting_.erase(unanswered);
  } else if (taken != kept_.end()) {
    taken->taker = no_slot;
    if (auto offered = offer(taken); !offered) line_.process->fail_for_good(offered.error());
  } else if (!line_.process->failure) {
    const time_point end = line_.clock.now() + options_.close_grace;
    const auto late = mpi_poll(line_.clock, *line_.process, end, [&](mpi_pause& pause) -> result<bool> {
      CAUSEWAY_TRY(look(pause));
      return table_[slot].done;
    });
    if (late && *late) return table_.release(slot);
    why.message += "; MPI still holds its memory, so this rank's use of MPI ends here";
    line_.process->fail_for_good(why);
  }
  table_.finish(slot, std::move(why));
  return table_.release(slot);
}

CAUSEWAY_DECL bool mpi_engine::done(operation op) {
  if (!table_.done(op) && line_.process->usable()) (void)progress();
  return table_.done(op) || line_.process->failure.has_value();
}

CAUSEWAY_DECL bool mpi_engine::wait_any(std::span<const operation> ops, time_point deadline) {
  const auto any = mpi_poll(line_.clock, *line_.process, deadline, [&](mpi_pause& pause) -> result<bool> {
    if (line_.process->failure || std::any_of(ops.begin(), ops.end(), [&](operation op) { return table_.done(op); })) {
      return true;
    }
    CAUSEWAY_TRY(look(pause));
    return false;
  });
  return any.value_or(false);
}

CAUSEWAY_DECL std::string mpi_engine::describe() const {
  std::string text;
  table_.for_each_unfinished([&](const pending_operation& op) {
    text += op.peer == self()
                ? "adding up with all ranks"
                : std::string{op.is_send ? "sending to " : "receiving from "} + peer_name(op.peer) + ", " + to_text(op.id);
    text += ": " + std::to_string(op.moved) + " of " + std::to_string(op.length) + " bytes\n";
  });
  return text;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_MPI_ENGINE_IPP
#endif


// ---- causeway/collective/mpi_site.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_MPI_SITE_HPP
#define CAUSEWAY_COLLECTIVE_MPI_SITE_HPP

// A site whose ranks are an MPI job, or part of one: means by MPI's own collectives, or by our exchange over MPI's
// messages, whichever is quicker for the size. Sums can be begun, and finished after other work. Link causeway::mpi.

#include <iterator>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL [[nodiscard]] std::string to_string(mpi_way way);

namespace detail {
class mpi_sums;  // it has MPI's own types
}

/// Models `site` for all ranks of a world. Members hold the same bits after each operation. What fails ends the site, since
/// its ranks no longer agree on what comes next; memory that MPI still held is not touched again (net/mpi_transport.hpp).
/// Memory: `in_parts` 1/n of a sum, `messages` 2/n, `direct` n times a small one, `shared` 256 KiB a
/// rank. One thread, the one that entered MPI.
class mpi_site final : public site {
 public:
  /// The best way for means of up to so many bytes, and for broadcasts, and what they took when they were timed.
  struct choice {
    std::size_t up_to = 0;
    mpi_way way = mpi_way::all_reduce;
    bool broadcasts_messages = false;       ///< collective::broadcast over net::mpi_transport, instead of MPI_Ibcast
    double took[std::size(mpi_ways)] = {};  ///< seconds, by way: of the slowest rank; 0: not timed
    double broadcast_took[2] = {};          ///< MPI_Ibcast, messages
  };

  /// All ranks of `world` call it, with the same options.
  CAUSEWAY_DECL [[nodiscard]] static result<std::shared_ptr<mpi_site>> open(const net::mpi_world& world,
                                                                            const mpi_site_options& options = {});
  mpi_site(const mpi_site&) = delete;
  mpi_site& operator=(const mpi_site&) = delete;
  CAUSEWAY_INLINE ~mpi_site() override;

  [[nodiscard]] CAUSEWAY_INLINE std::uint32_t size() const override;
  [[nodiscard]] CAUSEWAY_INLINE std::uint32_t rank() const override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> mean(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> sum(std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<void> broadcast(std::uint32_t from, std::span<float> data) override;
  [[nodiscard]] CAUSEWAY_INLINE result<bool> all_of(bool mine) override;

  /// Begins a sum, and returns. `data` belongs to MPI until `finish`. One at a time; nothing else of the site between.
  /// Bytes move in `done` and `finish`, and in between as far as MPI moves them by itself. bf16 is added in f32, two at a
  /// time, and rounded each time.
  CAUSEWAY_DECL [[nodiscard]] result<void> begin_sum(std::span<float> data);
  CAUSEWAY_DECL [[nodiscard]] result<void> begin_sum(std::span<bf16> data);
  CAUSEWAY_DECL [[nodiscard]] bool done();
  CAUSEWAY_DECL [[nodiscard]] result<void> finish();

  /// Times the ways for means and broadcasts of up to `bytes`, and 64 MiB, and takes the best for each size from then on.
  /// Costs about twenty means and ten broadcasts of that size. What is best may be another one tomorrow, and with more than
  /// two members the order of a sum, and so its last bits, is that of its way: who must have the same bits again keeps
  /// `choices`. All members call it. Nothing to choose with `same_bits`, or alone.
  CAUSEWAY_DECL [[nodiscard]] result<void> measure(std::size_t bytes);

  /// Smallest size first; empty where nothing was timed, and shared memory, or else MPI_Iallreduce, and MPI_Ibcast do
  /// all.
  [[nodiscard]] const std::vector<choice>& choices() const noexcept { return choices_; }
  /// Those of another time. All members call it, with the same.
  CAUSEWAY_DECL void choose(std::vector<choice> choices);
  CAUSEWAY_DECL [[nodiscard]] mpi_way way_of(std::size_t bytes) const;
  /// From now on, for all sizes. All members call it.
  CAUSEWAY_DECL void always(mpi_way way);
  /// Whether `shared` is possible: all ranks are on one host.
  CAUSEWAY_DECL [[nodiscard]] bool shares_memory() const;

 private:
  CAUSEWAY_DECL explicit mpi_site(std::unique_ptr<detail::mpi_sums> sums);

  CAUSEWAY_DECL [[nodiscard]] const choice* choice_for(std::size_t bytes) const;
  CAUSEWAY_DECL [[nodiscard]] std::vector<mpi_way> ways_for(std::size_t bytes) const;
  result<double> best_of(int repeats, auto&& f);

  std::unique_ptr<detail::mpi_sums> sums_;
  std::vector<choice> choices_;
  mpi_way usual_ = mpi_way::all_reduce;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_MPI_SITE_HPP

// ---- causeway/collective/mpi_sums.hpp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_MPI_SUMS_HPP
#define CAUSEWAY_COLLECTIVE_MPI_SUMS_HPP

// What is behind collective::mpi_site: sums and broadcasts among the ranks of a communicator, in each of their ways. Only
// bodies include it: it has MPI's own types.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// Where all send to all, a sum of more is quicker in MPI's own way on any machine.
inline constexpr std::size_t most_direct = std::size_t{16} << 10U;

/// MPI's signature. Each addition rounds, as in hardware that adds bf16.
inline void add_bf16(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const bf16*>(in);
  auto* const b = static_cast<bf16*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = bf16{static_cast<float>(a[i]) + static_cast<float>(b[i])};
}

/// One sum at a time on a communicator of its own.
class mpi_sums {
 public:
  mpi_sums(net::detail::mpi_communicator line, net::mpi_transport words, const mpi_site_options& options, duration patience)
      : line_{std::move(line)}, words_{std::move(words)}, options_{options}, patience_{patience} {}
  mpi_sums(const mpi_sums&) = delete;
  mpi_sums& operator=(const mpi_sums&) = delete;
  ~mpi_sums() {
    if (own_sum_ != MPI_OP_NULL && line_.process->usable()) (void)MPI_Op_free(&own_sum_);
  }

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(line_.size); }
  [[nodiscard]] std::uint32_t rank() const { return static_cast<std::uint32_t>(line_.rank); }
  [[nodiscard]] const mpi_site_options& options() const { return options_; }
  [[nodiscard]] bool shares_memory() const { return shared_ != nullptr; }
  [[nodiscard]] any_clock& clock() { return line_.clock; }
  [[nodiscard]] thread_pool& pool() { return options_.pool != nullptr ? *options_.pool : workspace_.alone(); }

  CAUSEWAY_DECL result<void> begin(mpi_way way, std::byte* data, std::size_t count, MPI_Datatype type, MPI_Op how);
  /// Memory for sums, where all ranks can have it. All ranks call it.
  CAUSEWAY_DECL result<void> share_memory(const net::mpi_world& world);
  CAUSEWAY_DECL result<void> begin_shared(std::span<float> data, float factor);
  CAUSEWAY_DECL result<bool> look(net::detail::mpi_pause& pause);
  CAUSEWAY_DECL result<void> finish();
  CAUSEWAY_DECL result<void> by_messages(std::span<float> data, bool mean);
  CAUSEWAY_DECL result<void> broadcast_messages(std::uint32_t from, std::span<float> data);
  CAUSEWAY_DECL result<void> broadcast(std::uint32_t from, std::span<float> data);
  CAUSEWAY_DECL result<int> least(int mine);
  CAUSEWAY_DECL result<void> slowest(std::span<double> times);
  CAUSEWAY_DECL result<MPI_Op> sum_of_bf16();

 private:
  [[nodiscard]] result<void> ready() const {
    if (line_.process->failure) return *line_.process->failure;
    return {};
  }
  result<void> ended(const error& why) { return line_.process->fail_for_good(why); }
  result<void> check(int code, const char* where) {
    auto outcome = net::detail::mpi_check(code, where);
    return outcome ? outcome : ended(outcome.error());
  }
  result<void> wait(MPI_Request& request, const char* where) {
    return net::detail::mpi_wait(line_, request, patience_, where);
  }
  CAUSEWAY_DECL result<void> gather_parts();
  CAUSEWAY_DECL result<void> begin_direct(std::span<float> data);
  CAUSEWAY_DECL void end_direct();
  CAUSEWAY_DECL result<bool> look_shared(net::detail::mpi_pause& pause);
  CAUSEWAY_DECL collective_options message_options();

  net::detail::mpi_communicator line_;
  net::mpi_transport words_;
  std::unique_ptr<shared_sum> shared_;
  mpi_site_options options_;
  duration patience_;
  collective_workspace workspace_;
  MPI_Op own_sum_ = MPI_OP_NULL;
  std::vector<MPI_Request> requests_;
  std::uint64_t number_ = 0;
  std::uint32_t looks_ = 0;

  std::vector<std::byte> part_;    ///< not in place: MPICH 4.0 fails an assertion there
  std::byte* in_parts_ = nullptr;  ///< the sum whose parts are still to be gathered
  std::vector<float> terms_;       ///< of all ranks, for `direct_`
  std::span<float> direct_{};      ///< the sum whose terms are on their way
  MPI_Datatype type_ = MPI_FLOAT;
  std::size_t width_ = 0;
  std::vector<int> counts_, places_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_MPI_SUMS_HPP
#endif

// ---- causeway/collective/impl/mpi_site.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::string to_string(mpi_way way) {
  constexpr const char* names[] = {"all_reduce", "in_parts", "messages", "direct", "shared"};
  return names[static_cast<std::size_t>(way)];
}

CAUSEWAY_DECL mpi_site::mpi_site(std::unique_ptr<detail::mpi_sums> sums) : sums_{std::move(sums)} {
  always(shares_memory() ? mpi_way::shared : sums_->options().same_bits ? mpi_way::messages : mpi_way::all_reduce);
}
CAUSEWAY_INLINE mpi_site::~mpi_site() = default;

CAUSEWAY_DECL result<std::shared_ptr<mpi_site>> mpi_site::open(const net::mpi_world& world,
                                                               const mpi_site_options& options) {
  CAUSEWAY_ASSIGN(net::mpi_transport words, net::mpi_transport::open(world, {.own_sums = false}));
  CAUSEWAY_ASSIGN(const net::mpi_world own, world.split(0));  // a communicator that nobody else speaks on
  auto sums = std::make_unique<detail::mpi_sums>(*own.line(), std::move(words), options, world.patience());
  CAUSEWAY_TRY(sums->share_memory(own));
  std::shared_ptr<mpi_site> made{new mpi_site{std::move(sums)}};
  CAUSEWAY_TRY(made->measure(options.measure_up_to));
  return made;
}

CAUSEWAY_INLINE std::uint32_t mpi_site::size() const { return sums_->size(); }
CAUSEWAY_INLINE std::uint32_t mpi_site::rank() const { return sums_->rank(); }

CAUSEWAY_DECL const mpi_site::choice* mpi_site::choice_for(std::size_t bytes) const {
  for (const choice& c : choices_) {
    if (bytes <= c.up_to) return &c;
  }
  return choices_.empty() ? nullptr : &choices_.back();
}

CAUSEWAY_DECL mpi_way mpi_site::way_of(std::size_t bytes) const {
  const choice* const chosen = choice_for(bytes);
  return chosen != nullptr ? chosen->way : usual_;
}

CAUSEWAY_DECL void mpi_site::choose(std::vector<choice> choices) {
  if (!sums_->options().same_bits) choices_ = std::move(choices);
}

CAUSEWAY_DECL bool mpi_site::shares_memory() const { return sums_->shares_memory(); }

CAUSEWAY_DECL void mpi_site::always(mpi_way way) {
  choices_.clear();
  usual_ = way;
}

CAUSEWAY_INLINE result<void> mpi_site::mean(std::span<float> data) {
  if (size() == 1 || data.empty()) return {};
  const mpi_way way = way_of(data.size_bytes());
  if (way == mpi_way::messages) return sums_->by_messages(data, true);
  if (way == mpi_way::shared && shares_memory()) {
    CAUSEWAY_TRY(sums_->begin_shared(data, 1.0F / static_cast<float>(size())));
    return sums_->finish();
  }
  CAUSEWAY_TRY(sum(data));
  kernels::scale(sums_->pool(), data.data(), 1.0F / static_cast<float>(size()), static_cast<std::int64_t>(data.size()));
  return {};
}

CAUSEWAY_INLINE result<void> mpi_site::sum(std::span<float> data) {
  if (size() == 1 || data.empty()) return {};
  const mpi_way way = way_of(data.size_bytes());
  if (way == mpi_way::messages) return sums_->by_messages(data, false);
  CAUSEWAY_TRY(sums_->begin(way, reinterpret_cast<std::byte*>(data.data()), data.size(), MPI_FLOAT, MPI_SUM));
  return sums_->finish();
}

CAUSEWAY_DECL result<void> mpi_site::begin_sum(std::span<float> data) {
  const mpi_way way = way_of(data.size_bytes());
  return sums_->begin(way == mpi_way::messages ? mpi_way::all_reduce : way, reinterpret_cast<std::byte*>(data.data()),
                      data.size(), MPI_FLOAT, MPI_SUM);
}

CAUSEWAY_DECL result<void> mpi_site::begin_sum(std::span<bf16> data) {
  CAUSEWAY_ASSIGN(const MPI_Op how, sums_->sum_of_bf16());
  const mpi_way way = way_of(data.size_bytes());
  return sums_->begin(way == mpi_way::messages ? mpi_way::all_reduce : way, reinterpret_cast<std::byte*>(data.data()),
                      data.size(), MPI_UINT16_T, how);
}

CAUSEWAY_DECL bool mpi_site::done() {
  net::detail::mpi_pause pause;
  const auto over = sums_->look(pause);
  return !over || *over;
}

CAUSEWAY_DECL result<void> mpi_site::finish() { return sums_->finish(); }

CAUSEWAY_INLINE result<void> mpi_site::broadcast(std::uint32_t from, std::span<float> data) {
  CAUSEWAY_EXPECT(from < size());
  if (size() == 1 || data.empty()) return {};
  const choice* const chosen = choice_for(data.size_bytes());
  if (chosen != nullptr && chosen->broadcasts_messages) return sums_->broadcast_messages(from, data);
  return sums_->broadcast(from, data);
}

CAUSEWAY_INLINE result<bool> mpi_site::all_of(bool mine) {
  CAUSEWAY_ASSIGN(const int all, sums_->least(mine ? 1 : 0));
  return all == 1;
}

/// Those worth timing for sums of so many bytes, MPI's own first.
CAUSEWAY_DECL std::vector<mpi_way> mpi_site::ways_for(std::size_t bytes) const {
  std::vector<mpi_way> ways{mpi_way::all_reduce, mpi_way::in_parts, mpi_way::messages};
  if (bytes <= detail::most_direct && size() <= 64) ways.push_back(mpi_way::direct);  // n^2 messages
  if (shares_memory()) ways.push_back(mpi_way::shared);
  return ways;
}

/// Seconds of the quickest of so many, after a first one that is not counted.
result<double> mpi_site::best_of(int repeats, auto&& f) {
  double best = 1e9;
  for (int i = 0; i <= repeats; ++i) {
    CAUSEWAY_TRY(all_of(true));
    const time_point begin = sums_->clock().now();
    CAUSEWAY_TRY(f());
    if (i > 0) best = std::min(best, seconds(sums_->clock().now() - begin));
  }
  return best;
}

// The slowest rank's best time counts, and is the same on all ranks: so is the choice. Shared
// memory, or else MPI's own way, is kept where it is no more than noise behind.
CAUSEWAY_DECL result<void> mpi_site::measure(std::size_t bytes) {
  constexpr std::size_t smallest = 1024, largest = std::size_t{64} << 20U;
  if (size() == 1 || sums_->options().same_bits || bytes == 0) return {};
  const mpi_way usual = usual_;
  std::vector<choice> found;
  std::vector<float> values(std::min(bytes, largest) / sizeof(float), 1.0F);
  for (std::size_t up_to = smallest; up_to / 4 < std::min(bytes, largest); up_to *= 4) {
    choice c{.up_to = up_to};
    const int repeats = up_to <= std::size_t{256} << 10U ? 40 : up_to <= std::size_t{4} << 20U ? 12 : 4;  // short is noisy
    const std::span<float> part{values.data(), std::min(values.size(), up_to / sizeof(float))};
    for (const mpi_way way : ways_for(up_to)) {
      always(way);
      CAUSEWAY_ASSIGN(c.took[static_cast<int>(way)], best_of(repeats, [&] { return mean(part); }));
    }
    CAUSEWAY_ASSIGN(c.broadcast_took[0], best_of(repeats, [&] { return sums_->broadcast(0, part); }));
    CAUSEWAY_ASSIGN(c.broadcast_took[1], best_of(repeats, [&] { return sums_->broadcast_messages(0, part); }));
    CAUSEWAY_TRY(sums_->slowest(c.took));
    CAUSEWAY_TRY(sums_->slowest(c.broadcast_took));
    c.way = usual;
    const double enough = 0.9 * c.took[static_cast<int>(c.way)];
    for (const mpi_way way : ways_for(up_to)) {
      const double took = c.took[static_cast<int>(way)];
      if (took < enough && took < c.took[static_cast<int>(c.way)]) c.way = way;
    }
    c.broadcasts_messages = c.broadcast_took[1] < 0.9 * c.broadcast_took[0];
    found.push_back(c);
  }
  always(usual);
  choices_ = std::move(found);
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_MPI_SITE_IPP
#endif

// ---- causeway/collective/impl/mpi_sums.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_COLLECTIVE_IMPL_MPI_SUMS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_MPI_SUMS_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL result<void> mpi_sums::begin(mpi_way way, std::byte* data, std::size_t count, MPI_Datatype type, MPI_Op how) {
  CAUSEWAY_TRY(ready());
  CAUSEWAY_EXPECT(requests_.empty() && way != mpi_way::messages);
  type_ = type;
  width_ = type == MPI_FLOAT ? sizeof(float) : sizeof(bf16);
  const std::size_t most = net::detail::most_at_once / width_;
  if (way == mpi_way::in_parts && count <= most && count >= size()) {
    counts_.clear();
    places_.clear();
    for (std::size_t r = 0; r < size(); ++r) {
      places_.push_back(static_cast<int>(count * r / size()));
      counts_.push_back(static_cast<int>(count * (r + 1) / size()) - places_.back());
    }
    in_parts_ = data;
    part_.resize((count / size() + 1) * width_);
    requests_.push_back(MPI_REQUEST_NULL);
    return check(MPI_Ireduce_scatter(data, part_.data(), counts_.data(), type, how, line_.handle, requests_.data()),
                 "a sum within the site");
  }
  const std::span<float> values{reinterpret_cast<float*>(data), type == MPI_FLOAT ? count : 0};
  if (way == mpi_way::direct && !values.empty() && values.size_bytes() <= most_direct) return begin_direct(values);
  if (way == mpi_way::shared && !values.empty() && shared_) return begin_shared(values, 1.0F);
  for (std::size_t at = 0; at < count; at += most) {
    const auto piece = static_cast<int>(std::min(most, count - at));
    requests_.push_back(MPI_REQUEST_NULL);
    CAUSEWAY_TRY(check(MPI_Iallreduce(MPI_IN_PLACE, data + at * width_, piece, type, how, line_.handle, &requests_.back()),
                       "a sum within the site"));
  }
  return {};
}

CAUSEWAY_DECL result<void> mpi_sums::gather_parts() {
  std::byte* const data = std::exchange(in_parts_, nullptr);
  return check(MPI_Iallgatherv(part_.data(), counts_[rank()], type_, data, counts_.data(), places_.data(), type_,
                               line_.handle, requests_.data()),
               "a sum within the site");
}

// `data` is being sent, so that it is changed only when all have it.
CAUSEWAY_DECL result<void> mpi_sums::begin_direct(std::span<float> data) {
  constexpr int tag = 0;
  const auto count = static_cast<int>(data.size());
  direct_ = data;
  terms_.resize(data.size() * size());
  requests_.assign(2 * (std::size_t{size()} - 1), MPI_REQUEST_NULL);
  std::size_t next = 0;
  for (int r = 0; r < line_.size; ++r) {
    if (r == line_.rank) continue;
    float* const term = terms_.data() + static_cast<std::size_t>(r) * data.size();
    CAUSEWAY_TRY(
        check(MPI_Irecv(term, count, MPI_FLOAT, r, tag, line_.handle, &requests_[next++]), "a sum within the site"));
  }
  for (int step = 1; step < line_.size; ++step) {  // each rank begins with another one
    const int to = (line_.rank + step) % line_.size;
    CAUSEWAY_TRY(check(MPI_Isend(data.data(), count, MPI_FLOAT, to, tag, line_.handle, &requests_[next++]),
                       "a sum within the site"));
  }
  return {};
}

CAUSEWAY_DECL void mpi_sums::end_direct() {
  const std::span<float> sum = std::exchange(direct_, {});
  std::copy(sum.begin(), sum.end(), terms_.data() + std::size_t{rank()} * sum.size());
  std::copy_n(terms_.data(), sum.size(), sum.begin());
  for (std::size_t r = 1; r < size(); ++r) {
    const float* const term = terms_.data() + r * sum.size();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }
}

CAUSEWAY_DECL result<void> mpi_sums::share_memory(const net::mpi_world& world) {
  if (size() == 1 || size() > shared_sum::most_ranks) return {};
  shared_place place;
  result<std::unique_ptr<shared_sum>> mine = std::unique_ptr<shared_sum>{};
  if (rank() == 0) mine = shared_sum::make(size(), place);
  CAUSEWAY_ASSIGN(const std::string told, world.tell(0, {reinterpret_cast<const char*>(&place), sizeof place}));
  if (told.size() != sizeof place) return ended(fail(errc::protocol, "the site", "its ranks run different versions"));
  std::memcpy(&place, told.data(), sizeof place);
  if (rank() != 0) mine = shared_sum::join(rank(), size(), place);
  CAUSEWAY_ASSIGN(const int all, least(mine ? 1 : 0));
  if (all == 1) shared_ = std::move(*mine);
  return {};
}

CAUSEWAY_DECL result<void> mpi_sums::begin_shared(std::span<float> data, float factor) {
  CAUSEWAY_TRY(ready());
  shared_->begin(data, factor);
  return {};
}

// A rank that we wait for may itself wait for a message of ours, which moves only while we look at MPI.
CAUSEWAY_DECL result<bool> mpi_sums::look_shared(net::detail::mpi_pause& pause) {
  bool moved = false;
  if (shared_->look(pool(), moved)) return true;
  if (moved) pause.reset();
  if (++looks_ % 64 != 0) return false;
  int flag = 0;
  CAUSEWAY_TRY(
      check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, line_.handle, &flag, MPI_STATUS_IGNORE), "a sum within the site"));
  return false;
}

CAUSEWAY_DECL result<bool> mpi_sums::look(net::detail::mpi_pause& pause) {
  CAUSEWAY_TRY(ready());
  if (shared_ && shared_->under_way()) return look_shared(pause);
  int flag = 0;
  CAUSEWAY_TRY(check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE),
                     "a sum within the site"));
  if (flag == 0) return false;
  if (!direct_.empty()) end_direct();
  if (in_parts_ == nullptr) return true;
  pause.reset();
  CAUSEWAY_TRY(gather_parts());
  return false;
}

CAUSEWAY_DECL result<void> mpi_sums::finish() {
  const auto over = net::detail::mpi_poll(line_.clock, *line_.process, line_.clock.now() + patience_,
                                          [&](net::detail::mpi_pause& pause) { return look(pause); });
  if (!over) return ended(over.error());
  if (!*over) return ended(net::detail::mpi_timeout("a sum within the site", patience_));
  requests_.clear();
  return {};
}

CAUSEWAY_DECL collective_options mpi_sums::message_options() {
  collective_options options{.deadline = line_.clock.now() + patience_};
  options.pool = options_.pool;
  options.workspace = &workspace_;
  options.chunk_bytes = std::size_t{1} << 20U;
  return options;
}

CAUSEWAY_DECL result<void> mpi_sums::by_messages(std::span<float> data, bool mean) {
  CAUSEWAY_TRY(ready());
  const auto options = message_options();
  const net::message_id id{.channel = channels::site, .step = ++number_};
  const auto outcome = mean ? all_reduce_mean(words_, id, data, options) : all_reduce_sum(words_, id, data, options);
  return outcome ? outcome : ended(outcome.error());
}

CAUSEWAY_DECL result<void> mpi_sums::broadcast_messages(std::uint32_t from, std::span<float> data) {
  CAUSEWAY_TRY(ready());
  const net::message_id id{.channel = channels::site, .step = ++number_};
  const auto outcome = collective::broadcast(words_, id, from, std::as_writable_bytes(data), message_options());
  return outcome ? outcome : ended(outcome.error());
}

CAUSEWAY_DECL result<void> mpi_sums::broadcast(std::uint32_t from, std::span<float> data) {
  CAUSEWAY_TRY(ready());
  constexpr std::size_t most = net::detail::most_at_once / sizeof(float);
  for (std::size_t at = 0; at < data.size(); at += most) {
    MPI_Request request = MPI_REQUEST_NULL;
    CAUSEWAY_TRY(check(MPI_Ibcast(data.data() + at, static_cast<int>(std::min(most, data.size() - at)), MPI_FLOAT,
                                  static_cast<int>(from), line_.handle, &request),
                       "a broadcast within the site"));
    CAUSEWAY_TRY(wait(request, "a broadcast within the site"));
  }
  return {};
}

CAUSEWAY_DECL result<int> mpi_sums::least(int mine) {
  CAUSEWAY_TRY(ready());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(
      check(MPI_Iallreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, line_.handle, &request), "a word to the site"));
  CAUSEWAY_TRY(wait(request, "a word to the site"));
  return mine;
}

CAUSEWAY_DECL result<void> mpi_sums::slowest(std::span<double> times) {
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(check(MPI_Iallreduce(MPI_IN_PLACE, times.data(), static_cast<int>(times.size()), MPI_DOUBLE, MPI_MAX,
                                    line_.handle, &request),
                     "comparing ways to sum"));
  return wait(request, "comparing ways to sum");
}

CAUSEWAY_DECL result<MPI_Op> mpi_sums::sum_of_bf16() {
  CAUSEWAY_TRY(ready());
  if (own_sum_ == MPI_OP_NULL) CAUSEWAY_TRY(check(MPI_Op_create(add_bf16, 1, &own_sum_), "a sum of bf16"));
  return own_sum_;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_MPI_SUMS_IPP
#endif
#endif

#endif  // CAUSEWAY_TCP_HPP
