// SPDX-License-Identifier: Apache-2.0
// Causeway 0.1.0, what causeway/elastic.hpp includes in one. Written by tools/amalgamate.py: change the headers, not this file.

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

#define CAUSEWAY_RESTRICT __restrict__
#define CAUSEWAY_ALWAYS_INLINE inline __attribute__((always_inline))
#define CAUSEWAY_NOINLINE __attribute__((noinline))

#if defined(__CUDACC__)
#define CAUSEWAY_HD __host__ __device__
#else
#define CAUSEWAY_HD
#endif

#endif  // CAUSEWAY_CONFIG_CONFIG_HPP

// ---- causeway/core/error.hpp ----
#ifndef CAUSEWAY_CORE_ERROR_HPP
#define CAUSEWAY_CORE_ERROR_HPP

// What can go wrong for reasons outside the program, as a value. Numbers are stable and match docs/reference/errors.md.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI {

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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_ERROR_HPP

// ---- causeway/core/result.hpp ----
#ifndef CAUSEWAY_CORE_RESULT_HPP
#define CAUSEWAY_CORE_RESULT_HPP

// A value or an error. Our own type rather than std::expected, also where that exists, so that the ABI does not depend on
// the language mode, and a union by hand rather than std::variant, which costs a compiler several times as much for each T.
// Nothing in the library throws for a reason that the network, a disk or a peer can cause.

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

namespace causeway::inline CAUSEWAY_ABI {

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

}  // namespace causeway::inline CAUSEWAY_ABI

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

// ---- causeway/core/hash.hpp ----
#ifndef CAUSEWAY_CORE_HASH_HPP
#define CAUSEWAY_CORE_HASH_HPP

// A fast 64-bit checksum over bytes, the same on every machine. It finds torn files and replicas that differ; it is no
// defence against somebody who wants a collision.

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace causeway::inline CAUSEWAY_ABI {

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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_HASH_HPP

// ---- causeway/net/codec.hpp ----
#ifndef CAUSEWAY_NET_CODEC_HPP
#define CAUSEWAY_NET_CODEC_HPP

// Reading and writing bytes that cross the trust boundary: fixed-width little-endian integers, and text and blobs behind a
// length. The reader never looks past its input, never believes a length that the input does not back with bytes, and
// remembers its first failure: a decoder reads everything and asks once at the end.

#include <bit>
#include <concepts>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::net {

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
  byte_writer& put_bytes(std::span<const std::byte> blob) {
    CAUSEWAY_EXPECT(blob.size() <= UINT32_MAX);
    put(static_cast<std::uint32_t>(blob.size()));
    bytes_.insert(bytes_.end(), blob.begin(), blob.end());
    return *this;
  }

  byte_writer& put_text(std::string_view text) { return put_bytes(std::as_bytes(std::span{text.data(), text.size()})); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() && noexcept { return std::move(bytes_); }

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
  std::span<const std::byte> get_bytes(std::size_t limit) noexcept {
    const auto length = get<std::uint32_t>();
    if (length > limit) return set_failed(state::over_limit), std::span<const std::byte>{};
    if (!require(length)) return {};
    const auto view = rest_.first(length);
    rest_ = rest_.subspan(length);
    return view;
  }

  /// Text of at most `limit` bytes; control characters and other bytes outside printable ASCII become '?', so that what a
  /// stranger sent can be shown on a terminal.
  std::string get_text(std::size_t limit) {
    const auto view = get_bytes(limit);
    std::string text;
    text.reserve(view.size());
    for (const std::byte b : view) {
      const auto c = static_cast<char>(b);
      text.push_back(c >= ' ' && c <= '~' ? c : '?');
    }
    return text;
  }

  /// What was read cannot be right (a count beyond its limit, an unknown kind): from now on every read fails.
  void refuse() noexcept { set_failed(state::over_limit); }

  [[nodiscard]] bool ok() const noexcept { return state_ == state::good; }
  [[nodiscard]] std::size_t remaining() const noexcept { return rest_.size(); }

  /// Success when every read succeeded and nothing is left; else errc::corrupt with the reason.
  [[nodiscard]] result<void> finish(std::string_view what) const {
    if (state_ == state::over_limit) {
      return fail(errc::too_large, std::string{what}, "a length or kind in it is beyond its limit");
    }
    if (state_ == state::truncated) return fail(errc::corrupt, std::string{what}, "it ends in the middle of a value");
    if (!rest_.empty()) {
      return fail(errc::corrupt, std::string{what}, std::to_string(rest_.size()) + " bytes follow its end");
    }
    return {};
  }

 private:
  enum class state : std::uint8_t { good, truncated, over_limit };

  bool require(std::size_t n) noexcept {
    if (!ok()) return false;
    if (rest_.size() >= n) return true;
    set_failed(state::truncated);
    return false;
  }

  void set_failed(state why) noexcept {
    if (ok()) state_ = why;
    rest_ = {};
  }

  std::span<const std::byte> rest_;
  state state_ = state::good;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_CODEC_HPP

// ---- causeway/core/clock.hpp ----
#ifndef CAUSEWAY_CORE_CLOCK_HPP
#define CAUSEWAY_CORE_CLOCK_HPP

// Time as a dependency. Nothing in the library reads a clock but through these types, so that a simulated cluster can run
// on virtual time.

#include <chrono>

namespace causeway::inline CAUSEWAY_ABI {

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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_CLOCK_HPP

// ---- causeway/core/metrics.hpp ----
#ifndef CAUSEWAY_CORE_METRICS_HPP
#define CAUSEWAY_CORE_METRICS_HPP

// What a run says about itself. The library never prints: it hands records to a sink, which is silent by default.

namespace causeway::inline CAUSEWAY_ABI {

enum class severity : std::uint8_t { debug, info, warning, error };

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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_METRICS_HPP

// ---- causeway/net/transport.hpp ----
#ifndef CAUSEWAY_NET_TRANSPORT_HPP
#define CAUSEWAY_NET_TRANSPORT_HPP

// What policies and collectives need of a network: start a send, start a receive, wait with a deadline. Real sockets, an
// in-process network and the simulator model the same concept, and `any_transport` holds any of them by value, so that the
// very same trainer runs on all three.

namespace causeway::inline CAUSEWAY_ABI::net {

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
/// - Messages between two peers with equal ids arrive in order. Messages that arrive before their receive is started are
///   kept, up to a limit.
template <class T>
concept Transport = std::movable<T> &&
    requires(T& t, const T& c, peer_index peer, const message_id& id, std::span<const std::byte> out,
             std::span<std::byte> in, operation op, time_point deadline) {
  { c.self() } -> std::same_as<peer_index>;
  { c.size() } -> std::same_as<std::uint32_t>;
  { t.send(peer, id, out) } -> std::same_as<operation>;
  { t.receive(peer, id, in) } -> std::same_as<operation>;
  { t.wait(op, deadline) } -> std::same_as<result<std::size_t>>;
  { c.done(op) } -> std::same_as<bool>;
  { c.stats() } -> std::same_as<traffic>;
};

/// The network of a peer that is alone.
class solo_transport {
 public:
  static constexpr peer_index self() noexcept { return 0; }
  static constexpr std::uint32_t size() noexcept { return 1; }
  static operation send(peer_index, const message_id&, std::span<const std::byte>) noexcept { return 1; }
  static operation receive(peer_index, const message_id&, std::span<std::byte>) noexcept { return 1; }
  static result<std::size_t> wait(operation, time_point) {
    return fail(errc::peer_lost, "solo transport", "there is no other peer in this run");
  }
  static constexpr bool done(operation) noexcept { return true; }
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
  any_transport() : any_transport(solo_transport{}) {}

  /// Any transport is one, without a cast. What is none is told from the first call alone: asking it for moves would ask
  /// for conversions to this type again.
  template <class T>
    requires(!std::same_as<T, any_transport> && KnowsItself<T> && Transport<T>)
  any_transport(T transport) : model_{std::make_unique<model<T>>(std::move(transport))} {}

  [[nodiscard]] peer_index self() const { return model_->self(); }
  [[nodiscard]] std::uint32_t size() const { return model_->size(); }
  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return model_->send(to, id, bytes);
  }
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return model_->receive(from, id, buffer);
  }
  result<std::size_t> wait(operation op, time_point deadline) { return model_->wait(op, deadline); }
  [[nodiscard]] bool done(operation op) const { return model_->done(op); }
  [[nodiscard]] traffic stats() const { return model_->stats(); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual peer_index self() const = 0;
    virtual std::uint32_t size() const = 0;
    virtual operation send(peer_index, const message_id&, std::span<const std::byte>) = 0;
    virtual operation receive(peer_index, const message_id&, std::span<std::byte>) = 0;
    virtual result<std::size_t> wait(operation, time_point) = 0;
    virtual bool done(operation) const = 0;
    virtual traffic stats() const = 0;
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
    traffic stats() const override { return transport.stats(); }
    T transport;
  };

  std::unique_ptr<interface> model_;
};
static_assert(Transport<any_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_TRANSPORT_HPP

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

namespace causeway::inline CAUSEWAY_ABI::net {

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
  /// Ends all data operations of epochs before `epoch` with errc::cancelled, forgets kept messages of those epochs, and
  /// from now on drops and counts (frames_rejected) what still arrives of them.
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

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FABRIC_HPP

// ---- causeway/membership/packing.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_PACKING_HPP
#define CAUSEWAY_MEMBERSHIP_PACKING_HPP

// Bytes for long lists that hardly change: ids of peers as differences to a list that both sides have, and counts that are
// mostly alike. A thousand members that stay are four bytes. Ids and hashes have 256 bits on the wire and on disk, so that
// keys and longer hashes find room; in memory they have 64 for now, and a reader refuses others.

#include <algorithm>
#include <map>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// An id or a hash: its 64 bits, low byte first, then 24 zero bytes.
inline void put_wide(net::byte_writer& out, std::uint64_t value) {
  out.put(value).put(std::uint64_t{0}).put(std::uint64_t{0}).put(std::uint64_t{0});
}
inline std::uint64_t get_wide(net::byte_reader& in) {
  const auto value = in.get<std::uint64_t>();
  std::uint64_t rest = 0;
  for (int i = 0; i < 3; ++i) rest |= in.get<std::uint64_t>();
  if (rest != 0) in.refuse();
  return rest == 0 ? value : 0;
}
inline constexpr std::size_t wide_bytes = 32;

/// The same without the zero bytes at its end: how many are left, then those.
inline void put_trimmed(net::byte_writer& out, std::uint64_t value) {
  const auto bytes = static_cast<unsigned>((std::bit_width(value) + 7) / 8);
  out.put(static_cast<std::uint8_t>(bytes));
  for (unsigned i = 0; i < bytes; ++i) out.put(static_cast<std::uint8_t>(value >> (8 * i)));
}
inline std::uint64_t get_trimmed(net::byte_reader& in) {
  const unsigned bytes = in.get<std::uint8_t>();
  if (bytes > sizeof(std::uint64_t)) in.refuse();
  std::uint64_t value = 0;
  for (unsigned i = 0; in.ok() && i < bytes; ++i) value |= std::uint64_t{in.get<std::uint8_t>()} << (8 * i);
  if (static_cast<unsigned>((std::bit_width(value) + 7) / 8) != bytes) in.refuse();
  return value;
}

/// Seven bits a byte, low ones first; the top bit says that more follow.
inline void put_varint(net::byte_writer& out, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) out.put(static_cast<std::uint8_t>(value | 0x80U));
  out.put(static_cast<std::uint8_t>(value));
}
inline std::uint64_t get_varint(net::byte_reader& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = in.get<std::uint8_t>();
    const std::uint64_t bits = byte & 0x7FU;
    if (shift == 63 && bits > 1) break;
    value |= bits << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  in.refuse();
  return 0;
}

/// `list` as parts of `base` and ids that are spelled out. Cost: O(n log n).
inline void put_list(net::byte_writer& out, std::span<const net::peer_id> list, std::span<const net::peer_id> base) {
  std::map<net::peer_id, std::size_t> places;
  for (std::size_t i = 0; i < base.size(); ++i) places.emplace(base[i], i);
  put_varint(out, list.size());
  for (std::size_t i = 0; i < list.size();) {
    const auto at = places.find(list[i]);
    const std::size_t from = at == places.end() ? 0 : at->second;
    std::size_t n = 1;
    if (at != places.end()) {
      while (i + n < list.size() && from + n < base.size() && list[i + n] == base[from + n]) ++n;
      put_varint(out, 2 * n);
      put_varint(out, from);
    } else {
      while (i + n < list.size() && !places.contains(list[i + n])) ++n;
      put_varint(out, 2 * n + 1);
      for (std::size_t k = i; k < i + n; ++k) put_trimmed(out, list[k]);
    }
    i += n;
  }
}

/// Refuses more than `most` ids, and parts outside of `base`.
inline std::vector<net::peer_id> get_list(net::byte_reader& in, std::span<const net::peer_id> base, std::size_t most) {
  std::vector<net::peer_id> list;
  const std::uint64_t size = get_varint(in);
  if (size > most) in.refuse();
  while (in.ok() && list.size() < size) {
    const std::uint64_t part = get_varint(in);
    const std::uint64_t n = part / 2;
    const bool spelled = part % 2 == 1;
    const std::uint64_t from = spelled ? 0 : get_varint(in);
    const bool fits = n > 0 && n <= size - list.size() &&
                      (spelled ? n <= in.remaining() : from <= base.size() && n <= base.size() - from);
    if (!fits) in.refuse();
    for (std::uint64_t i = 0; fits && i < n; ++i) list.push_back(spelled ? get_trimmed(in) : base[from + i]);
  }
  return list;
}

/// As runs of equal values or as differences to the smallest, whichever is shorter. Their number is known to the reader.
inline void put_counts(net::byte_writer& out, std::span<const std::uint64_t> values) {
  net::byte_writer runs;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t n = 1;
    while (i + n < values.size() && values[i + n] == values[i]) ++n;
    put_varint(runs, n);
    put_varint(runs, values[i]);
    i += n;
  }
  const std::uint64_t least = values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  const std::uint64_t most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  const auto width = static_cast<unsigned>(std::bit_width(most - least));
  const bool packed = width < 57 && (values.size() * width + 7) / 8 + 10 < runs.bytes().size();
  out.put(static_cast<std::uint8_t>(packed ? width + 1 : 0));
  if (!packed) {
    for (const std::byte b : runs.bytes()) out.put(static_cast<std::uint8_t>(b));
    return;
  }
  put_varint(out, least);
  std::uint64_t held = 0;
  unsigned bits = 0;
  for (const std::uint64_t v : values) {
    held |= (v - least) << bits;
    for (bits += width; bits >= 8; bits -= 8, held >>= 8U) out.put(static_cast<std::uint8_t>(held));
  }
  if (bits > 0) out.put(static_cast<std::uint8_t>(held));
}

/// Allocates no more than the `n` that the caller vouches for.
inline std::vector<std::uint64_t> get_counts(net::byte_reader& in, std::size_t n) {
  std::vector<std::uint64_t> values;
  values.reserve(n);
  const unsigned mode = in.get<std::uint8_t>();
  if (mode > 57) in.refuse();
  while (mode == 0 && in.ok() && values.size() < n) {
    const std::uint64_t run = get_varint(in);
    if (run == 0 || run > n - values.size()) in.refuse();
    const std::uint64_t value = get_varint(in);
    if (in.ok()) values.insert(values.end(), run, value);
  }
  const std::uint64_t least = mode > 0 ? get_varint(in) : 0;
  std::uint64_t held = 0;
  unsigned bits = 0;
  while (mode > 0 && in.ok() && values.size() < n) {
    const unsigned width = mode - 1;
    for (; bits < width; bits += 8) held |= std::uint64_t{in.get<std::uint8_t>()} << bits;
    values.push_back(least + (held & ((std::uint64_t{1} << width) - 1)));
    held >>= width;
    bits -= width;
  }
  values.resize(n);
  return values;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_PACKING_HPP

// ---- causeway/membership/records.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_RECORDS_HPP
#define CAUSEWAY_MEMBERSHIP_RECORDS_HPP

// What the members of a run agree on, and what a quorum is. A commit record is complete when it is put to the vote: it
// holds the next membership and what becomes of the samples, so that nobody decides anything after the votes. The chain
// value of a record names it and all records before it; it is the parent of the next.

#include <compare>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// A run has at most this many members.
inline constexpr std::size_t max_members = 4096;
/// An address has at most this many bytes.
inline constexpr std::size_t max_address_bytes = 256;

/// A round has at most this number, and a commit is believed only so many rounds above the newest that is known.
inline constexpr std::uint64_t max_round = std::uint64_t{1} << 48U;
inline constexpr std::uint64_t max_rounds_missed = std::uint64_t{1} << 24U;
/// One peer contributes at most so many samples to one round.
inline constexpr std::uint64_t max_round_samples = std::uint64_t{1} << 32U;

/// Names one attempt at a round. Ballots of a run are never used twice and only grow, also from round to round.
struct ballot {
  std::uint32_t term = 0;     ///< won by one leader
  std::uint32_t attempt = 0;  ///< counted by that leader

  static constexpr std::uint32_t max_attempt = (1U << 10U) - 1;
  static constexpr std::uint32_t max_term = (1U << 22U) - 1;

  /// The epoch of all data messages of the attempt.
  [[nodiscard]] constexpr std::uint32_t wire() const noexcept { return (term << 10U) | attempt; }
  [[nodiscard]] constexpr ballot next() const noexcept { return {term, attempt + 1}; }

  friend constexpr auto operator<=>(const ballot&, const ballot&) = default;
};

/// Samples of one peer that a commit counts.
struct contribution {
  net::peer_id peer = 0;
  std::uint64_t samples = 0;

  friend bool operator==(const contribution&, const contribution&) = default;
};

/// A peer and where it can be dialled.
struct located_peer {
  net::peer_id peer = 0;
  std::string address;

  friend bool operator==(const located_peer&, const located_peer&) = default;
};

/// One committed round.
struct commit_record {
  std::uint64_t run = 0;
  std::uint64_t round = 0;
  std::uint64_t parent = 0;                 ///< chain() of the record before
  std::uint64_t state = 0;                  ///< hash of the shared state
  ballot at;                                ///< the attempt that made it; later ballots may have carried it through
  std::vector<net::peer_id> members;        ///< C_round: a quorum of these decides the next round
  std::vector<contribution> contributions;  ///< whose samples are in the state; only those with any
  std::vector<net::peer_id> returned;       ///< whose other samples go back to the pool
  std::uint64_t ledger = 0;                 ///< hash of the sample ledger after this round

  /// Names this record and, through `parent`, all before it. Cost: one hash of the record.
  [[nodiscard]] std::uint64_t chain() const;

  /// Samples of `peer` that are in the state.
  [[nodiscard]] std::uint64_t contribution_of(net::peer_id peer) const noexcept {
    for (const contribution& c : contributions) {
      if (c.peer == peer) return c.samples;
    }
    return 0;
  }

  friend bool operator==(const commit_record&, const commit_record&) = default;
};

/// The vote of one member. No signature yet: then it is the word of whoever passes it on.
struct endorsement {
  net::peer_id peer = 0;
  std::vector<std::byte> signature;  ///< at most max_signature_bytes

  friend bool operator==(const endorsement&, const endorsement&) = default;
};
inline constexpr std::size_t max_signature_bytes = 64;

/// Who voted for a record: a quorum of the members before it. No part of the chain, because leaders may have heard others.
using certificate = std::vector<endorsement>;

[[nodiscard]] inline std::vector<net::peer_id> voters_of(const certificate& votes) {
  std::vector<net::peer_id> ids;
  for (const endorsement& e : votes) ids.push_back(e.peer);
  return ids;
}

struct view_member {
  net::peer_id peer = 0;
  std::string address;
  std::uint64_t samples = 0;  ///< its weight: samples since its last committed contribution

  friend bool operator==(const view_member&, const view_member&) = default;
};

/// Who takes part in one attempt, in the order of their ranks.
struct view {
  ballot at;
  std::uint64_t round = 0;   ///< the one being made
  std::uint64_t parent = 0;  ///< chain of the committed record before it
  std::vector<view_member> members;

  [[nodiscard]] std::optional<net::peer_index> rank_of(net::peer_id peer) const noexcept {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].peer == peer) return static_cast<net::peer_index>(i);
    }
    return std::nullopt;
  }

  /// Samples of all together. 0: there is nothing to exchange, and the state stays what it is.
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const view_member& member : members) sum += member.samples;
    return sum;
  }

  friend bool operator==(const view&, const view&) = default;
};

/// Whether `voters` can decide for `members`: more than half of them, or exactly half with the first-named one among them.
/// Any two quorums of the same members have a peer in common. Cost: O(n log n).
[[nodiscard]] inline bool is_quorum(std::span<const net::peer_id> members, std::vector<net::peer_id> voters) {
  if (members.empty()) return false;
  std::sort(voters.begin(), voters.end());
  const auto voted = [&](net::peer_id id) { return std::binary_search(voters.begin(), voters.end(), id); };
  const auto count = static_cast<std::size_t>(std::count_if(members.begin(), members.end(), voted));
  return 2 * count > members.size() || (2 * count == members.size() && voted(members.front()));
}

[[nodiscard]] inline bool contains(std::span<const net::peer_id> peers, net::peer_id id) {
  return std::find(peers.begin(), peers.end(), id) != peers.end();
}

// ---- bytes -------------------------------------------------------------------------------------------------------------

namespace detail {

/// The count of a list whose elements take at least `least` bytes each: never more than the input can hold.
inline std::size_t read_count(net::byte_reader& in, std::size_t limit, std::size_t least) {
  const std::size_t count = in.get<std::uint32_t>();
  if (count <= limit && count <= in.remaining() / least) return count;
  in.refuse();
  return 0;
}

inline void write_peers(net::byte_writer& out, const std::vector<net::peer_id>& peers) {
  out.put(static_cast<std::uint32_t>(peers.size()));
  for (const net::peer_id id : peers) put_wide(out, id);
}

inline std::vector<net::peer_id> read_peers(net::byte_reader& in) {
  std::vector<net::peer_id> peers(read_count(in, max_members, wide_bytes));
  for (net::peer_id& id : peers) id = get_wide(in);
  return peers;
}

inline void write_located(net::byte_writer& out, const std::vector<located_peer>& peers) {
  out.put(static_cast<std::uint32_t>(peers.size()));
  for (const located_peer& p : peers) {
    put_wide(out, p.peer);
    out.put_text(p.address);
  }
}

inline std::vector<located_peer> read_located(net::byte_reader& in) {
  std::vector<located_peer> peers(read_count(in, max_members, wide_bytes + 4));
  for (located_peer& p : peers) {
    p.peer = get_wide(in);
    p.address = in.get_text(max_address_bytes);
  }
  return peers;
}

}  // namespace detail

inline void write(net::byte_writer& out, const ballot& b) { out.put(b.term).put(b.attempt); }

inline ballot read_ballot(net::byte_reader& in) {
  ballot b;
  b.term = in.get<std::uint32_t>();
  b.attempt = in.get<std::uint32_t>();
  if (b.term > ballot::max_term || b.attempt > ballot::max_attempt) in.refuse();
  return b;
}

/// The bytes that a record's chain value names.
inline void write(net::byte_writer& out, const commit_record& r) {
  out.put(r.run).put(r.round);
  detail::put_wide(out, r.parent);
  detail::put_wide(out, r.state);
  write(out, r.at);
  detail::write_peers(out, r.members);
  out.put(static_cast<std::uint32_t>(r.contributions.size()));
  for (const contribution& c : r.contributions) {
    detail::put_wide(out, c.peer);
    out.put(c.samples);
  }
  detail::write_peers(out, r.returned);
  detail::put_wide(out, r.ledger);
}

namespace detail {

/// A record that both sides know, to write the next one as a difference to it. None: the next one is spelled out.
struct base_record {
  const commit_record* record = nullptr;
  std::uint64_t chain = 0;

  [[nodiscard]] bool precedes(std::uint64_t parent) const noexcept { return record != nullptr && parent == chain; }
  /// Members of the record before one with this parent; nobody where it is not known.
  [[nodiscard]] std::span<const net::peer_id> members(std::uint64_t parent) const noexcept {
    return precedes(parent) ? std::span<const net::peer_id>{record->members} : std::span<const net::peer_id>{};
  }
};

/// A record and who voted for it, if that is known.
struct endorsed_record {
  commit_record record;
  certificate votes;
};

inline void put_certificate(net::byte_writer& out, const certificate& votes, std::span<const net::peer_id> base) {
  std::vector<std::uint64_t> lengths;
  for (const endorsement& e : votes) lengths.push_back(e.signature.size());
  put_list(out, voters_of(votes), base);
  put_counts(out, lengths);
  for (const endorsement& e : votes) {
    for (const std::byte b : e.signature) out.put(static_cast<std::uint8_t>(b));
  }
}

inline certificate get_certificate(net::byte_reader& in, std::span<const net::peer_id> base) {
  const std::vector<net::peer_id> peers = get_list(in, base, max_members);
  const std::vector<std::uint64_t> lengths = get_counts(in, peers.size());
  certificate votes;
  for (std::size_t i = 0; i < peers.size() && in.ok(); ++i) {
    if (lengths[i] > std::min<std::size_t>(max_signature_bytes, in.remaining())) in.refuse();
    votes.push_back({peers[i], {}});
    for (std::uint64_t k = 0; in.ok() && k < lengths[i]; ++k) {
      votes.back().signature.push_back(static_cast<std::byte>(in.get<std::uint8_t>()));
    }
  }
  return votes;
}

/// Lists as differences to `base` where it is the record before. A thousand members that stay take about 150 bytes.
inline void put_record(net::byte_writer& out, const commit_record& r, const certificate& votes, const base_record& base) {
  const auto before = base.members(r.parent);
  std::vector<net::peer_id> contributors;
  std::vector<std::uint64_t> samples;
  for (const contribution& c : r.contributions) {
    contributors.push_back(c.peer);
    samples.push_back(c.samples);
  }
  net::byte_writer body;
  put_wide(body, r.state);
  write(body, r.at);
  put_list(body, r.members, before);
  put_list(body, contributors, r.members);
  put_counts(body, samples);
  put_list(body, r.returned, before);
  put_wide(body, r.ledger);
  put_certificate(body, votes, before.empty() ? std::span<const net::peer_id>{r.members} : before);
  out.put(static_cast<std::uint8_t>(base.precedes(r.parent))).put(r.run).put(r.round);
  put_wide(out, r.parent);
  out.put_bytes(body.bytes());
}

/// Nothing where it is a difference to a record that `base` is not: then the whole has to be asked for. The reader has
/// failed afterwards where the bytes hold no record.
inline std::optional<endorsed_record> get_record(net::byte_reader& in, const base_record& base) {
  endorsed_record e;
  commit_record& r = e.record;
  const bool differs = in.get<std::uint8_t>() != 0;
  r.run = in.get<std::uint64_t>();
  r.round = in.get<std::uint64_t>();
  r.parent = get_wide(in);
  if (r.round > max_round) in.refuse();
  net::byte_reader body{in.get_bytes(net::max_post_bytes)};
  if (!in.ok() || (differs && !base.precedes(r.parent))) return std::nullopt;
  const auto before = differs ? base.members(r.parent) : std::span<const net::peer_id>{};
  r.state = get_wide(body);
  r.at = read_ballot(body);
  r.members = get_list(body, before, max_members);
  const std::vector<net::peer_id> contributors = get_list(body, r.members, max_members);
  const std::vector<std::uint64_t> samples = get_counts(body, contributors.size());
  for (std::size_t i = 0; i < contributors.size(); ++i) r.contributions.push_back({contributors[i], samples[i]});
  r.returned = get_list(body, before, max_members);
  r.ledger = get_wide(body);
  e.votes = get_certificate(body, before.empty() ? std::span<const net::peer_id>{r.members} : before);
  if (!body.finish("record")) in.refuse();
  return e;
}

}  // namespace detail

inline std::uint64_t commit_record::chain() const {
  net::byte_writer out;
  write(out, *this);
  return hash_bytes(out.bytes());
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_RECORDS_HPP

// ---- causeway/membership/ledger.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_LEDGER_HPP
#define CAUSEWAY_MEMBERSHIP_LEDGER_HPP

// Who trains on which samples, so that each is in exactly one commit. Samples are numbered 0, 1, 2, ...; every number is in
// one of four places: done, held by one peer, in the pool, or not handed out yet (from next() on). The ledger is a function
// of the commit records alone: whoever applied the same records has the same ledger.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// The sample numbers first, first + 1, ..., first + count - 1.
struct sample_range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  friend bool operator==(const sample_range&, const sample_range&) = default;
};

/// A regular value; not safe to share between threads.
class ledger {
 public:
  ledger() = default;
  /// `quota`: how many samples each member holds after a commit; 0: nobody holds any, contributions are only counted.
  /// `budget`: how many samples the run has; 0: no end.
  explicit ledger(std::uint64_t quota, std::uint64_t budget = 0) : quota_{quota}, budget_{budget} {}

  /// Whether the record can be applied: nobody contributes more than it holds, and each peer is named once.
  [[nodiscard]] bool fits(const commit_record& record) const {
    std::vector<net::peer_id> seen;
    std::uint64_t sum = done_;
    for (const contribution& c : record.contributions) {
      if (c.samples > (quota_ > 0 ? held_count(c.peer) : max_round_samples) || c.samples > UINT64_MAX - sum) return false;
      sum += c.samples;
      seen.push_back(c.peer);
    }
    return unique(std::move(seen)) && unique(record.members) && unique(record.returned);
  }

  /// Consumes what was contributed, takes back what was returned, then tops up the members in their order to their share:
  /// from the pool, lowest first, then from next(). Precondition: fits(record). Cost: O(n log n).
  void apply(const commit_record& record) {
    CAUSEWAY_EXPECT(fits(record));
    const holdings before = std::move(held_);
    held_ = {};
    std::vector<contribution> consumed = record.contributions;
    std::sort(consumed.begin(), consumed.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
    std::vector<net::peer_id> returned = record.returned;
    std::sort(returned.begin(), returned.end());
    for (const contribution& c : consumed) done_ += c.samples;
    auto next = consumed.begin();
    for (std::size_t i = 0; i < before.owners.size(); ++i) {
      const net::peer_id peer = before.owners[i];
      while (next != consumed.end() && next->peer < peer) ++next;
      std::uint64_t skip = next != consumed.end() && next->peer == peer ? next->samples : 0;
      const bool back = std::binary_search(returned.begin(), returned.end(), peer);
      for (const sample_range& r : before.of(i)) {
        const std::uint64_t part = std::min(skip, r.count);
        skip -= part;
        const sample_range rest{r.first + part, r.count - part};
        if (rest.count > 0 && back) pool_.push_back(rest);
        if (rest.count > 0 && !back) held_.add(peer, rest);
      }
    }
    tidy_pool();
    top_up(record.members);
  }

  /// What a peer has to train on, in this order.
  [[nodiscard]] std::span<const sample_range> held(net::peer_id peer) const {
    const auto at = std::lower_bound(held_.owners.begin(), held_.owners.end(), peer);
    if (at == held_.owners.end() || *at != peer) return {};
    return held_.of(static_cast<std::size_t>(at - held_.owners.begin()));
  }

  [[nodiscard]] std::uint64_t held_count(net::peer_id peer) const {
    std::uint64_t sum = 0;
    for (const sample_range& r : held(peer)) sum += r.count;
    return sum;
  }

  /// Up to `n` sample numbers of a peer, after its first `offset` ones.
  [[nodiscard]] std::vector<std::uint64_t> take(net::peer_id peer, std::uint64_t offset, std::uint64_t n) const {
    std::vector<std::uint64_t> numbers;
    for (const sample_range& r : held(peer)) {
      for (std::uint64_t i = std::min(offset, r.count); i < r.count && numbers.size() < n; ++i) {
        numbers.push_back(r.first + i);
      }
      offset -= std::min(offset, r.count);
    }
    return numbers;
  }

  /// How many samples each of `members` should hold: the quota, and near the end of the budget an equal part of what they
  /// hold and of what is left, so that the last samples do not wait for a few while the others have nothing to train.
  [[nodiscard]] std::uint64_t share(const std::vector<net::peer_id>& members) const {
    if (budget_ == 0 || members.empty()) return quota_;
    std::uint64_t all = left();
    for (const net::peer_id peer : members) all += held_count(peer);
    return std::min<std::uint64_t>(quota_, (all + members.size() - 1) / members.size());
  }

  /// How many samples nobody holds and nobody has trained on. Without an end of the run: as many as anybody may want.
  [[nodiscard]] std::uint64_t left() const noexcept {
    if (budget_ == 0) return UINT64_MAX;
    std::uint64_t sum = budget_ - std::min(budget_, next_);
    for (const sample_range& r : pool_) sum += r.count;
    return sum;
  }

  /// Everybody who holds something, ascending.
  [[nodiscard]] const std::vector<net::peer_id>& holders() const noexcept { return held_.owners; }

  /// How many samples are in a commit.
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
  /// Whether the whole budget is.
  [[nodiscard]] bool complete() const noexcept { return budget_ > 0 && done_ >= budget_; }
  /// The lowest number that nobody ever held.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  /// What was returned and not handed out again, ascending.
  [[nodiscard]] const std::vector<sample_range>& pool() const noexcept { return pool_; }
  [[nodiscard]] std::uint64_t quota() const noexcept { return quota_; }
  [[nodiscard]] std::uint64_t budget() const noexcept { return budget_; }

  /// Equal for equal ledgers on every machine.
  [[nodiscard]] std::uint64_t hash() const {
    net::byte_writer out;
    write_canonical(out);
    return hash_bytes(out.bytes());
  }

  /// What hash() names.
  void write_canonical(net::byte_writer& out) const {
    out.put(quota_).put(budget_).put(done_).put(next_).put(static_cast<std::uint32_t>(pool_.size()));
    for (const sample_range& r : pool_) out.put(r.first).put(r.count);
    out.put(static_cast<std::uint32_t>(held_.owners.size()));
    for (std::size_t i = 0; i < held_.owners.size(); ++i) {
      detail::put_wide(out, held_.owners[i]);
      out.put(static_cast<std::uint32_t>(held_.of(i).size()));
      for (const sample_range& r : held_.of(i)) out.put(r.first).put(r.count);
    }
  }

  /// For the wire and the disk: holders as differences to `base`, which the reader knows (the members, usually).
  void encode(net::byte_writer& out, const std::vector<net::peer_id>& base) const {
    out.put(quota_).put(budget_).put(done_).put(next_);
    write_ranges(out, pool_);
    detail::put_list(out, held_.owners, sorted(base));
    for (std::size_t i = 0; i < held_.owners.size(); ++i) write_ranges(out, held_.of(i));
  }

  /// Reads a ledger; the reader has failed afterwards where the bytes hold none. Allocates no more than the input backs.
  static ledger decode(net::byte_reader& in, const std::vector<net::peer_id>& base) {
    ledger l;
    l.quota_ = in.get<std::uint64_t>();
    l.budget_ = in.get<std::uint64_t>();
    l.done_ = in.get<std::uint64_t>();
    l.next_ = in.get<std::uint64_t>();
    l.pool_ = read_ranges(in);
    const std::vector<net::peer_id> owners = detail::get_list(in, sorted(base), 16 * max_members);
    for (std::size_t i = 0; i < owners.size() && in.ok(); ++i) {
      if (i > 0 && owners[i] <= owners[i - 1]) in.refuse();
      const range_list mine = read_ranges(in);
      if (mine.empty()) in.refuse();
      for (const sample_range& r : mine) l.held_.add(owners[i], r);
    }
    if (!l.consistent()) in.refuse();
    return l;
  }

  friend bool operator==(const ledger&, const ledger&) = default;

 private:
  using range_list = std::vector<sample_range>;

  static std::vector<net::peer_id> sorted(std::vector<net::peer_id> peers) {
    std::sort(peers.begin(), peers.end());
    return peers;
  }

  static bool unique(std::vector<net::peer_id> peers) {
    std::sort(peers.begin(), peers.end());
    return std::adjacent_find(peers.begin(), peers.end()) == peers.end();
  }

  /// Who holds what, flat: thousands of peers are copied in one piece.
  struct holdings {
    std::vector<net::peer_id> owners;  ///< ascending
    std::vector<std::size_t> ends;     ///< of each owner's ranges
    range_list ranges;

    [[nodiscard]] std::span<const sample_range> of(std::size_t i) const {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      return std::span{ranges}.subspan(begin, ends[i] - begin);
    }

    /// Behind all others: owners come in ascending order.
    void add(net::peer_id peer, const sample_range& r) {
      const bool same = !owners.empty() && owners.back() == peer;
      if (!same) {
        owners.push_back(peer);
        ends.push_back(ranges.size());
      }
      if (same && ranges.back().first + ranges.back().count == r.first) {
        ranges.back().count += r.count;
      } else {
        ranges.push_back(r);
        ++ends.back();
      }
    }

    friend bool operator==(const holdings&, const holdings&) = default;
  };

  struct draw {
    net::peer_id peer;
    sample_range got;
  };

  void tidy_pool() {
    std::sort(pool_.begin(), pool_.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    range_list joined;
    for (const sample_range& r : pool_) append(joined, r);
    pool_ = std::move(joined);
  }

  void top_up(const std::vector<net::peer_id>& members) {
    std::vector<draw> drawn;
    std::size_t used = 0;  // ranges of the pool
    const std::uint64_t wanted = share(members);
    for (const net::peer_id peer : members) {
      std::uint64_t have = held_count(peer);
      while (have < wanted) {
        const sample_range got = take_out(wanted - have, used);
        if (got.count == 0) break;
        drawn.push_back({peer, got});
        have += got.count;
      }
    }
    pool_.erase(pool_.begin(), pool_.begin() + static_cast<std::ptrdiff_t>(used));
    std::stable_sort(drawn.begin(), drawn.end(), [](const draw& x, const draw& y) { return x.peer < y.peer; });
    const holdings before = std::move(held_);
    held_ = {};
    auto next = drawn.begin();
    for (std::size_t i = 0; i < before.owners.size(); ++i) {
      for (; next != drawn.end() && next->peer < before.owners[i]; ++next) held_.add(next->peer, next->got);
      for (const sample_range& r : before.of(i)) held_.add(before.owners[i], r);
    }
    for (; next != drawn.end(); ++next) held_.add(next->peer, next->got);
  }

  /// At most `n` numbers: from the pool's lowest range that is not `used` up, else new ones.
  sample_range take_out(std::uint64_t n, std::size_t& used) {
    if (used == pool_.size()) {
      const std::uint64_t left = budget_ == 0 ? n : budget_ - std::min(budget_, next_);
      const sample_range got{next_, std::min(n, left)};
      next_ += got.count;
      return got;
    }
    sample_range& lowest = pool_[used];
    const sample_range got{lowest.first, std::min(n, lowest.count)};
    lowest.first += got.count;
    lowest.count -= got.count;
    if (lowest.count == 0) ++used;
    return got;
  }

  static void append(range_list& to, const sample_range& r) {
    if (!to.empty() && to.back().first + to.back().count == r.first) {
      to.back().count += r.count;
    } else {
      to.push_back(r);
    }
  }

  static void write_ranges(net::byte_writer& out, std::span<const sample_range> list) {
    detail::put_varint(out, list.size());
    for (const sample_range& r : list) {
      detail::put_varint(out, r.first);
      detail::put_varint(out, r.count);
    }
  }

  static range_list read_ranges(net::byte_reader& in) {
    const std::uint64_t count = detail::get_varint(in);
    if (count > in.remaining() / 2) in.refuse();
    range_list list(in.ok() ? count : 0);
    for (sample_range& r : list) {
      r.first = detail::get_varint(in);
      r.count = detail::get_varint(in);
    }
    return list;
  }

  /// Whether the places hold every number below next() exactly once: without this a forged ledger could overflow sums.
  [[nodiscard]] bool consistent() const {
    range_list all = pool_;
    all.insert(all.end(), held_.ranges.begin(), held_.ranges.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::uint64_t outstanding = 0;
    std::uint64_t end = 0;
    for (const sample_range& r : all) {
      if (r.first < end || r.first > next_ || r.count == 0 || r.count > next_ - r.first) return false;
      end = r.first + r.count;
      outstanding += r.count;
    }
    if (budget_ > 0 && next_ > budget_) return false;
    return quota_ == 0 ? all.empty() && next_ == 0 : outstanding + done_ == next_;
  }

  std::uint64_t quota_ = 0;
  std::uint64_t budget_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t next_ = 0;
  range_list pool_;
  holdings held_;
};

/// How many of the first `samples` that a peer held in `before`, and has trained on, it may still contribute under `after`:
/// all or none. None when they were committed or handed to somebody else meanwhile.
[[nodiscard]] inline std::uint64_t still_held(const ledger& before, const ledger& after, net::peer_id peer,
                                              std::uint64_t samples) {
  if (before.quota() == 0) return samples;
  return before.take(peer, 0, samples) == after.take(peer, 0, samples) ? samples : 0;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_LEDGER_HPP

// ---- causeway/membership/durable_record.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP
#define CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP

// What a peer must remember across a crash, whatever else it forgets: whom it promised what, what it voted for, and the
// newest commit it knows. It is written before any answer that depends on it leaves. A peer whose record is lost or corrupt
// is a new peer and takes a new id: with its old one it might break a promise.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// A vote: the value, and the newest ballot in which this peer voted for it.
struct acceptance {
  ballot at;
  commit_record value;

  friend bool operator==(const acceptance&, const acceptance&) = default;
};

struct durable_record {
  std::uint64_t run = 0;
  net::peer_id self = 0;
  ballot floor;                        ///< never votes below this ballot
  net::peer_id promised_to = 0;        ///< the only peer whose ballots of floor.term count
  std::optional<acceptance> accepted;  ///< the vote for the round after `newest`, if any
  std::optional<commit_record> newest;
  certificate votes;                 ///< for `newest`
  ledger samples;                    ///< after `newest`
  std::vector<located_peer> others;  ///< where other peers were last seen

  friend bool operator==(const durable_record&, const durable_record&) = default;
};

/// The record of a peer that has promised nothing yet.
[[nodiscard]] inline durable_record fresh_record(std::uint64_t run, net::peer_id self) {
  durable_record r;
  r.run = run;
  r.self = self;
  return r;
}

namespace detail {
inline constexpr std::uint64_t durable_magic = 0x3252424D45574143U;  // "CAWEMBR2"
}

/// The bytes to store, checksum at the end.
[[nodiscard]] inline std::vector<std::byte> encode(const durable_record& r) {
  net::byte_writer out;
  const detail::base_record base{r.newest ? &*r.newest : nullptr, r.newest ? r.newest->chain() : 0};
  out.put(detail::durable_magic).put(r.run);
  detail::put_wide(out, r.self);
  write(out, r.floor);
  detail::put_wide(out, r.promised_to);
  out.put(static_cast<std::uint8_t>(r.newest.has_value()));
  if (r.newest) detail::put_record(out, *r.newest, r.votes, {});
  out.put(static_cast<std::uint8_t>(r.accepted.has_value()));
  if (r.accepted) {
    write(out, r.accepted->at);
    detail::put_record(out, r.accepted->value, {}, base);
  }
  r.samples.encode(out, r.newest ? r.newest->members : std::vector<net::peer_id>{});
  detail::write_located(out, r.others);
  out.put(hash_bytes(out.bytes()));
  return std::move(out).take();
}

/// errc::corrupt or errc::too_large for anything that `encode` did not write.
[[nodiscard]] inline result<durable_record> decode_durable_record(std::span<const std::byte> bytes) {
  if (bytes.size() < 16) return fail(errc::corrupt, "membership record", "it is too short to be one");
  net::byte_reader sum{bytes.last(8)};
  if (sum.get<std::uint64_t>() != hash_bytes(bytes.first(bytes.size() - 8))) {
    return fail(errc::corrupt, "membership record", "its checksum is wrong; delete it, and this peer joins as a new one");
  }
  net::byte_reader in{bytes.first(bytes.size() - 8)};
  if (in.get<std::uint64_t>() != detail::durable_magic) {
    return fail(errc::version_mismatch, "membership record", "another version wrote it, or something else");
  }
  durable_record r;
  r.run = in.get<std::uint64_t>();
  r.self = detail::get_wide(in);
  r.floor = read_ballot(in);
  r.promised_to = detail::get_wide(in);
  if (in.get<std::uint8_t>() != 0) {
    auto newest = detail::get_record(in, {});
    if (newest) r.newest = std::move(newest->record);
    if (newest) r.votes = std::move(newest->votes);
  }
  const detail::base_record base{r.newest ? &*r.newest : nullptr, r.newest ? r.newest->chain() : 0};
  if (in.get<std::uint8_t>() != 0) {
    const ballot at = read_ballot(in);
    auto value = detail::get_record(in, base);
    if (value) r.accepted = acceptance{at, std::move(value->record)};
    if (!value) in.refuse();
  }
  r.samples = ledger::decode(in, r.newest ? r.newest->members : std::vector<net::peer_id>{});
  r.others = detail::read_located(in);
  CAUSEWAY_TRY(in.finish("membership record"));
  return r;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_DURABLE_RECORD_HPP

// ---- causeway/membership/messages.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_MESSAGES_HPP
#define CAUSEWAY_MEMBERSHIP_MESSAGES_HPP

// What members say to each other, and its bytes: format, run, kind, fields. Most of it is `report`: all that a peer has
// promised, accepted, knows and offers, in one message. Receivers need no history of a conversation, so a report that
// answers one question is as good for the next, and a lost one is mended by the next heartbeat.
//
// Records and memberships are written as differences to the newest commit that the sender knows. A receiver that knows
// another one reads the rest of the message, is told that something is missing (`partial`), and asks for the whole.

#include <variant>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Messages of another format are refused.
inline constexpr std::uint8_t message_format = 2;

namespace detail {

/// The newest commit that somebody knows. Round 0 with chain 0: none.
struct position {
  std::uint64_t round = 0;
  std::uint64_t chain = 0;

  [[nodiscard]] bool known() const noexcept { return chain != 0; }
  [[nodiscard]] bool older_than(const position& other) const noexcept {
    return other.known() && (!known() || round < other.round);
  }
  friend bool operator==(const position&, const position&) = default;
};

/// Member to leader, or to anybody who might know the leader: where I stand.
struct report {
  std::uint64_t sequence = 0;  ///< grows within a process
  ballot floor;
  net::peer_id promised_to = 0;
  position newest;
  std::optional<acceptance> accepted;  ///< for the round after newest
  bool partial = false;                ///< there is one that could not be read
  bool holds = false;                  ///< has the state of newest
  bool ready = false;                  ///< to make the next round
  bool leaving = false;
  std::uint64_t samples = 0;
  std::uint32_t trial_term = 0;  ///< would promise this term if it were asked in earnest
  std::uint32_t beat = 0;        ///< the heartbeat that this answers
  std::string address;           ///< where the sender can be dialled

  /// Whether it says the same as another one.
  [[nodiscard]] bool repeats(const report& r) const {
    return floor == r.floor && promised_to == r.promised_to && newest == r.newest && accepted == r.accepted &&
           partial == r.partial && holds == r.holds && ready == r.ready && leaving == r.leaving && samples == r.samples;
  }
};

/// Leader to everybody, at regular intervals.
struct heartbeat {
  std::uint32_t term = 0;
  std::uint32_t number = 0;
  position newest;
  std::uint32_t reachable = 0;  ///< members that the leader reaches
  bool quorum = false;          ///< whether they are enough
};

/// Candidate to members: promise me this term. A trial asks only whether they would.
struct campaign {
  std::uint32_t term = 0;
  bool trial = false;
  position newest;
};

/// To somebody who asked the wrong peer: whom to ask.
struct guide {
  std::uint32_t term = 0;
  located_peer leader;  ///< peer 0: not known
  std::vector<located_peer> others;
};

/// Leader to those who take part: begin. `proposal` is the record to come, state 0; it counts what the view says. Addresses
/// of the view are not on the wire: `news` has those that are new, `places` tells whether the receiver has all the others.
struct go {
  view who;
  commit_record proposal;
  std::vector<located_peer> news;
  std::uint64_t places = 0;  ///< places_of(who)
  bool partial = false;
};

/// Names the addresses of a view.
[[nodiscard]] inline std::uint64_t places_of(const view& who) {
  net::byte_writer out;
  for (const view_member& m : who.members) out.put(m.peer).put_text(m.address);
  return hash_bytes(out.bytes());
}

struct vote {
  ballot at;
  std::uint64_t round = 0;
  std::uint64_t state = 0;
};

struct failure {
  ballot at;
  errc why = errc::peer_lost;
  std::vector<net::peer_id> suspects;
};

/// Leader: from now on vote for nothing below `floor`, and report.
struct abort_attempt {
  ballot floor;
};

/// Leader: this value may have been chosen; take it over and vote for it in `at`.
struct adoption {
  ballot at;
  commit_record value;
  std::vector<located_peer> holders;
  bool partial = false;
};

/// A round is committed. `holders`: for those who do not hold its state. Who voted for the record has it already: a brief
/// notice leaves it out.
struct commit_notice {
  position of;
  commit_record record;
  certificate votes;
  std::vector<located_peer> holders;
  bool brief = false;
  bool partial = false;
};

/// The newest commit for somebody who misses more than one.
struct sync {
  commit_record record;
  certificate votes;
  ledger samples;
  std::vector<located_peer> holders;
};

/// Who has the newest committed state, for somebody who fetches it.
struct holder_list {
  position of;
  std::vector<located_peer> holders;
};

/// Leader to a peer that it leaves out for a while.
struct exclusion {
  std::string why;
};

/// Leader to a leaving peer: you may go (`you`). Anybody to its peers: I am gone.
struct farewell {
  bool you = false;
};

/// To a member: do you know this commit, or have you voted for it?
struct inquiry {
  position about;
};

/// The answer, also given later, once something is known.
struct confirmation {
  position newest;
  std::uint64_t before = 0;  ///< parent of newest
  std::uint64_t voted = 0;   ///< chain of the value voted for, for the round after newest; 0: none

  /// Whether it says that `chain` is committed, or that its sender voted for it.
  [[nodiscard]] bool supports(std::uint64_t chain) const noexcept {
    return chain != 0 && (newest.chain == chain || before == chain || voted == chain);
  }
};

/// Where are these? None: all members.
struct address_request {
  std::vector<net::peer_id> who;
};
/// The answer: those that are known.
struct address_list {
  std::vector<located_peer> places;
};

// ---- bytes, one pair for each kind
// ---------------------------------------------------------------------------------------

inline void put_flag(net::byte_writer& out, bool flag) { out.put(static_cast<std::uint8_t>(flag)); }
inline bool get_flag(net::byte_reader& in) { return in.get<std::uint8_t>() != 0; }

inline void write(net::byte_writer& out, const position& p) {
  out.put(p.round);
  put_wide(out, p.chain);
}
inline void read(net::byte_reader& in, position& p) {
  p.round = in.get<std::uint64_t>();
  p.chain = get_wide(in);
  if (p.round > max_round) in.refuse();
}

inline void write(net::byte_writer& out, const report& m, const base_record& base) {
  out.put(m.sequence);
  membership::write(out, m.floor);
  put_wide(out, m.promised_to);
  write(out, m.newest);
  put_flag(out, m.accepted.has_value());
  if (m.accepted) {
    membership::write(out, m.accepted->at);
    put_record(out, m.accepted->value, {}, base);
  }
  put_flag(out, m.holds);
  put_flag(out, m.ready);
  put_flag(out, m.leaving);
  out.put(m.samples).put(m.trial_term).put(m.beat).put_text(m.address);
}
inline void read(net::byte_reader& in, report& m, const base_record& base) {
  m.sequence = in.get<std::uint64_t>();
  m.floor = read_ballot(in);
  m.promised_to = get_wide(in);
  read(in, m.newest);
  if (get_flag(in)) {
    const ballot at = read_ballot(in);
    auto value = get_record(in, base);
    if (value) m.accepted = acceptance{at, std::move(value->record)};
    m.partial = !value;
  }
  m.holds = get_flag(in);
  m.ready = get_flag(in);
  m.leaving = get_flag(in);
  m.samples = in.get<std::uint64_t>();
  m.trial_term = in.get<std::uint32_t>();
  m.beat = in.get<std::uint32_t>();
  m.address = in.get_text(max_address_bytes);
}

inline void write(net::byte_writer& out, const heartbeat& m) {
  out.put(m.term).put(m.number);
  write(out, m.newest);
  out.put(m.reachable);
  put_flag(out, m.quorum);
}
inline void read(net::byte_reader& in, heartbeat& m) {
  m.term = in.get<std::uint32_t>();
  if (m.term > ballot::max_term) in.refuse();
  m.number = in.get<std::uint32_t>();
  read(in, m.newest);
  m.reachable = in.get<std::uint32_t>();
  m.quorum = get_flag(in);
}

inline void write(net::byte_writer& out, const campaign& m) {
  out.put(m.term);
  put_flag(out, m.trial);
  write(out, m.newest);
}
inline void read(net::byte_reader& in, campaign& m) {
  m.term = in.get<std::uint32_t>();
  if (m.term > ballot::max_term) in.refuse();
  m.trial = get_flag(in);
  read(in, m.newest);
}

inline void write(net::byte_writer& out, const guide& m) {
  out.put(m.term);
  put_wide(out, m.leader.peer);
  out.put_text(m.leader.address);
  write_located(out, m.others);
}
inline void read(net::byte_reader& in, guide& m) {
  m.term = in.get<std::uint32_t>();
  m.leader.peer = get_wide(in);
  m.leader.address = in.get_text(max_address_bytes);
  m.others = read_located(in);
}

inline void write(net::byte_writer& out, const go& m, const base_record& base) {
  std::vector<net::peer_id> ids;
  std::vector<std::uint64_t> samples;
  for (const view_member& v : m.who.members) {
    ids.push_back(v.peer);
    samples.push_back(v.samples);
  }
  net::byte_writer body;
  put_list(body, ids, base.members(m.who.parent));
  put_counts(body, samples);
  write_located(body, m.news);
  body.put(m.places);
  put_list(body, m.proposal.members, ids);
  put_list(body, m.proposal.returned, base.members(m.who.parent));
  put_wide(body, m.proposal.ledger);
  membership::write(out, m.who.at);
  put_flag(out, base.precedes(m.who.parent));
  out.put(m.proposal.run).put(m.who.round);
  put_wide(out, m.who.parent);
  out.put_bytes(body.bytes());
}
inline void read(net::byte_reader& in, go& m, const base_record& base) {
  m.who.at = m.proposal.at = read_ballot(in);
  const bool differs = get_flag(in);
  m.proposal.run = in.get<std::uint64_t>();
  m.who.round = m.proposal.round = in.get<std::uint64_t>();
  m.who.parent = m.proposal.parent = get_wide(in);
  net::byte_reader body{in.get_bytes(net::max_post_bytes)};
  m.partial = differs && !base.precedes(m.who.parent);
  if (!in.ok() || m.partial) return;
  const auto before = differs ? base.members(m.who.parent) : std::span<const net::peer_id>{};
  const std::vector<net::peer_id> ids = get_list(body, before, max_members);
  const std::vector<std::uint64_t> samples = get_counts(body, ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    m.who.members.push_back({ids[i], {}, samples[i]});
    if (samples[i] > 0) m.proposal.contributions.push_back({ids[i], samples[i]});
  }
  m.news = read_located(body);
  m.places = body.get<std::uint64_t>();
  m.proposal.members = get_list(body, ids, max_members);
  m.proposal.returned = get_list(body, before, max_members);
  m.proposal.ledger = get_wide(body);
  if (m.who.round > max_round || !body.finish("go")) in.refuse();
}

inline void write(net::byte_writer& out, const vote& m) {
  membership::write(out, m.at);
  out.put(m.round);
  put_wide(out, m.state);
}
inline void read(net::byte_reader& in, vote& m) {
  m.at = read_ballot(in);
  m.round = in.get<std::uint64_t>();
  m.state = get_wide(in);
}

inline void write(net::byte_writer& out, const failure& m) {
  membership::write(out, m.at);
  out.put(static_cast<std::uint16_t>(m.why));
  write_peers(out, m.suspects);
}
inline void read(net::byte_reader& in, failure& m) {
  m.at = read_ballot(in);
  m.why = static_cast<errc>(in.get<std::uint16_t>());
  m.suspects = read_peers(in);
}

inline void write(net::byte_writer& out, const abort_attempt& m) { membership::write(out, m.floor); }
inline void read(net::byte_reader& in, abort_attempt& m) { m.floor = read_ballot(in); }

inline void write(net::byte_writer& out, const adoption& m, const base_record& base) {
  membership::write(out, m.at);
  put_record(out, m.value, {}, base);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, adoption& m, const base_record& base) {
  m.at = read_ballot(in);
  auto value = get_record(in, base);
  m.partial = !value;
  if (value) m.value = std::move(value->record);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const commit_notice& m, const base_record& base) {
  write(out, m.of);
  put_flag(out, m.brief);
  if (m.brief) {
    net::byte_writer votes;
    put_certificate(votes, m.votes, base.record != nullptr ? base.record->members : m.record.members);
    out.put_bytes(votes.bytes());
  } else {
    put_record(out, m.record, m.votes, base);
  }
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, commit_notice& m, const base_record& base) {
  read(in, m.of);
  m.brief = get_flag(in);
  if (m.brief) {
    net::byte_reader votes{in.get_bytes(net::max_post_bytes)};
    m.partial = base.record == nullptr || m.of.round != base.record->round + 1;
    if (!m.partial) m.votes = get_certificate(votes, base.record->members);
    if (!m.partial && !votes.finish("votes")) in.refuse();
  } else if (auto told = get_record(in, base)) {
    m.record = std::move(told->record);
    m.votes = std::move(told->votes);
  } else {
    m.partial = true;
  }
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const sync& m) {
  put_record(out, m.record, m.votes, {});
  m.samples.encode(out, m.record.members);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, sync& m) {
  auto told = get_record(in, {});
  if (!told) return in.refuse();
  m.record = std::move(told->record);
  m.votes = std::move(told->votes);
  m.samples = ledger::decode(in, m.record.members);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const holder_list& m) {
  write(out, m.of);
  write_located(out, m.holders);
}
inline void read(net::byte_reader& in, holder_list& m) {
  read(in, m.of);
  m.holders = read_located(in);
}

inline void write(net::byte_writer& out, const exclusion& m) { out.put_text(m.why); }
inline void read(net::byte_reader& in, exclusion& m) { m.why = in.get_text(1024); }

inline void write(net::byte_writer& out, const farewell& m) { put_flag(out, m.you); }
inline void read(net::byte_reader& in, farewell& m) { m.you = get_flag(in); }

inline void write(net::byte_writer& out, const inquiry& m) { write(out, m.about); }
inline void read(net::byte_reader& in, inquiry& m) { read(in, m.about); }

inline void write(net::byte_writer& out, const confirmation& m) {
  write(out, m.newest);
  put_wide(out, m.before);
  put_wide(out, m.voted);
}
inline void read(net::byte_reader& in, confirmation& m) {
  read(in, m.newest);
  m.before = get_wide(in);
  m.voted = get_wide(in);
}

inline void write(net::byte_writer& out, const address_request& m) { write_peers(out, m.who); }
inline void read(net::byte_reader& in, address_request& m) { m.who = read_peers(in); }

inline void write(net::byte_writer& out, const address_list& m) { write_located(out, m.places); }
inline void read(net::byte_reader& in, address_list& m) { m.places = read_located(in); }

/// Any message. The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<report, heartbeat, campaign, guide, go, vote, failure, abort_attempt, adoption, commit_notice,
                             sync, holder_list, exclusion, farewell, inquiry, confirmation, address_request, address_list>;

template <class Message, class... All>
constexpr std::size_t place_in(const std::variant<All...>*) {
  std::size_t place = 0;
  (void)((std::is_same_v<Message, All> || (++place, false)) || ...);
  return place;
}
/// Its place in the list.
template <class Message>
inline constexpr std::size_t number_of = place_in<Message>(static_cast<const message*>(nullptr));

/// Of an encoded message; none of the list for what is no message.
[[nodiscard]] inline std::size_t kind_of(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  (void)in.get<std::uint8_t>();
  (void)in.get<std::uint64_t>();
  const std::size_t which = in.get<std::uint8_t>();
  return in.ok() ? which : std::variant_size_v<message>;
}

/// Kind `kind`, default-made; refuses unknown ones.
template <std::size_t I = 0>
message read_kind(net::byte_reader& in, std::size_t kind, const base_record& base) {
  if constexpr (I < std::variant_size_v<message>) {
    if (kind != I) return read_kind<I + 1>(in, kind, base);
    std::variant_alternative_t<I, message> m;
    if constexpr (requires { read(in, m, base); }) {
      read(in, m, base);
    } else {
      read(in, m);
    }
    return m;
  } else {
    in.refuse();
    return farewell{};
  }
}

/// `base`: the newest commit that the sender knows.
[[nodiscard]] inline std::vector<std::byte> encode(std::uint64_t run, const message& m, const base_record& base = {}) {
  net::byte_writer out;
  out.put(message_format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { write(out, body, base); }) {
          write(out, body, base);
        } else {
          write(out, body);
        }
      },
      m);
  return std::move(out).take();
}

/// `base`: the newest commit that the receiver knows. errc::wrong_run, errc::version_mismatch, errc::corrupt or
/// errc::too_large for what is no message of this run.
[[nodiscard]] inline result<message> decode_message(std::uint64_t run, std::span<const std::byte> bytes,
                                                    const base_record& base = {}) {
  net::byte_reader in{bytes};
  const auto format = in.get<std::uint8_t>();
  if (format != message_format) return fail(errc::version_mismatch, "membership message", "of another format");
  if (in.get<std::uint64_t>() != run) return fail(errc::wrong_run, "membership message", "of another run");
  message m = read_kind(in, in.get<std::uint8_t>(), base);
  CAUSEWAY_TRY(in.finish("membership message"));
  return m;
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_MESSAGES_HPP

// ---- causeway/membership/history.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_HISTORY_HPP
#define CAUSEWAY_MEMBERSHIP_HISTORY_HPP

// What a peer says about itself for the checker: one event, one line of text. The protocol notes what it promises, votes
// for and learns; whoever drives it adds what it trained, held and accepted. membership/checker.hpp says what must be true
// of the histories of all peers together.

#include <charconv>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// One thing that one peer did. Fields that a kind does not use stay 0 or empty.
struct event {
  enum kind : std::uint8_t {
    boot,     ///< a process began: at = floor, round and parent = newest commit (by chain), hash = accepted chain or 0
    promise,  ///< at = floor, from = to whom; durable
    bar,      ///< at = floor: will not vote below it; durable
    lead,     ///< won the term in `at` for `round` (the one to be made)
    accept,   ///< voted: at, round, hash = chain of the record, parent; durable
    commit,   ///< learned: at, round, hash = state, parent, chain; members, contributions, returned, ledger
    held,     ///< has the full state of a round: round, hash = state
    trained,  ///< ranges = all numbers trained on since the last contribution, for `round`, based on `parent`
    update_accepted,  ///< a data message was let in: from, at, round, parent
    reject,           ///< something was refused: from, text = why
    left,             ///< takes no part any more
    refound,          ///< founded a run on a commit of another: round, hash = state, parent = that commit, chain
  };

  kind what = boot;
  time_point at_time;
  net::peer_id peer = 0;
  net::peer_id from = 0;
  ballot at;
  ballot voted;
  std::uint64_t round = 0;
  std::uint64_t hash = 0;
  std::uint64_t parent = 0;
  std::uint64_t chain = 0;
  std::uint64_t ledger = 0;
  std::vector<net::peer_id> members;
  std::vector<contribution> contributions;
  std::vector<net::peer_id> returned;
  std::vector<sample_range> ranges;
  std::string text;  ///< the rest of the line; no line breaks

  friend bool operator==(const event&, const event&) = default;
};

namespace detail {
inline constexpr std::array<std::string_view, 12> event_names{
    "boot",    "promise",         "bar",    "lead", "accept", "commit", "held",
    "trained", "update_accepted", "reject", "left", "refound"};

inline void add_field(std::string& line, std::string_view name, std::uint64_t value) {
  if (value != 0) line.append(" ").append(name).append("=").append(std::to_string(value));
}

template <class List, class Show>
void add_list(std::string& line, std::string_view name, const List& list, Show show) {
  if (list.empty()) return;
  line.append(" ").append(name).append("=");
  for (std::size_t i = 0; i < list.size(); ++i) line.append(i > 0 ? "," : "").append(show(list[i]));
}

inline std::string pair_text(std::uint64_t a, std::uint64_t b) { return std::to_string(a) + ":" + std::to_string(b); }

/// Numbers "1:2,3:4" in groups of `width`; false where the text is anything else.
inline bool read_numbers(std::string_view text, std::size_t width, std::vector<std::uint64_t>& numbers) {
  for (std::size_t i = 0; !text.empty(); ++i) {
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{}) return false;
    numbers.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.size() < 2 || text.front() != ((i + 1) % width == 0 ? ',' : ':')) return false;
    text.remove_prefix(1);
  }
  return !numbers.empty() && numbers.size() % width == 0;
}

inline bool read_field(event& e, std::string_view name, std::string_view value);

}  // namespace detail

/// One line without its end: `<nanoseconds> <peer> <kind> name=value ...`.
[[nodiscard]] inline std::string to_line(const event& e) {
  std::string line = std::to_string(e.at_time.since_start.count()) + " " + std::to_string(e.peer) + " ";
  line += detail::event_names[e.what];
  detail::add_field(line, "from", e.from);
  if (e.at != ballot{}) line += " at=" + detail::pair_text(e.at.term, e.at.attempt);
  if (e.voted != ballot{}) line += " voted=" + detail::pair_text(e.voted.term, e.voted.attempt);
  detail::add_field(line, "round", e.round);
  detail::add_field(line, "hash", e.hash);
  detail::add_field(line, "parent", e.parent);
  detail::add_field(line, "chain", e.chain);
  detail::add_field(line, "ledger", e.ledger);
  const auto id = [](net::peer_id p) { return std::to_string(p); };
  detail::add_list(line, "members", e.members, id);
  detail::add_list(line, "contributions", e.contributions,
                   [](const contribution& c) { return detail::pair_text(c.peer, c.samples); });
  detail::add_list(line, "returned", e.returned, id);
  detail::add_list(line, "ranges", e.ranges, [](const sample_range& r) { return detail::pair_text(r.first, r.count); });
  if (!e.text.empty()) line += " text=" + e.text;
  return line;
}

/// The event of a line that to_line wrote; errc::corrupt for any other.
[[nodiscard]] inline result<event> parse_event(std::string_view line) {
  const auto bad = [&] { return fail(errc::corrupt, "history", "not a line of a history: " + std::string{line}); };
  std::string_view rest = line;
  const auto word = [&] {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view w = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return w;
  };
  event e;
  std::int64_t nanoseconds = 0;
  const std::string_view when = word();
  if (std::from_chars(when.data(), when.data() + when.size(), nanoseconds).ec != std::errc{}) return bad();
  e.at_time = {duration{nanoseconds}};
  if (!detail::read_field(e, "peer", word())) return bad();
  const std::string_view kind = word();
  const auto at = std::find(detail::event_names.begin(), detail::event_names.end(), kind);
  if (at == detail::event_names.end()) return bad();
  e.what = static_cast<event::kind>(at - detail::event_names.begin());
  while (!rest.empty()) {
    if (rest.starts_with("text=")) {
      e.text = rest.substr(5);
      break;
    }
    const std::string_view field = word();
    const std::size_t equals = std::min(field.find('='), field.size());
    if (!detail::read_field(e, field.substr(0, equals), field.substr(std::min(equals + 1, field.size())))) return bad();
  }
  return e;
}

namespace detail {

inline bool read_field(event& e, std::string_view name, std::string_view value) {
  const bool is_ballot = name == "at" || name == "voted";
  const bool pairs = is_ballot || name == "contributions" || name == "ranges";
  std::vector<std::uint64_t> n;
  if (!read_numbers(value, pairs ? 2 : 1, n)) return false;
  if (name == "members") return e.members = n, true;
  if (name == "returned") return e.returned = n, true;
  for (std::size_t i = 0; i + 1 < n.size(); i += 2) {
    if (name == "ranges") e.ranges.push_back({n[i], n[i + 1]});
    if (name == "contributions") e.contributions.push_back({n[i], n[i + 1]});
  }
  if (name == "ranges" || name == "contributions") return true;
  if (n.size() != (pairs ? 2U : 1U)) return false;
  if (is_ballot) {
    if (n[0] > ballot::max_term || n[1] > ballot::max_attempt) return false;
    (name == "at" ? e.at : e.voted) = {static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1])};
    return true;
  }
  if (name == "peer") return e.peer = n[0], true;
  if (name == "from") return e.from = n[0], true;
  if (name == "round") return e.round = n[0], true;
  if (name == "hash") return e.hash = n[0], true;
  if (name == "parent") return e.parent = n[0], true;
  if (name == "chain") return e.chain = n[0], true;
  if (name == "ledger") return e.ledger = n[0], true;
  return false;
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_HISTORY_HPP

// ---- causeway/net/deadline.hpp ----
#ifndef CAUSEWAY_NET_DEADLINE_HPP
#define CAUSEWAY_NET_DEADLINE_HPP

// How long to wait, derived from how long it took before. Smoothed mean and mean deviation of observed times as TCP keeps
// them for its retransmission timer (Jacobson and Karels 1988; RFC 6298, equations 2.2 and 2.3), with a floor and a cap.

namespace causeway::inline CAUSEWAY_ABI::net {

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
  void observe(duration took) noexcept {
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

  /// A wait of `waited` ended without an arrival: the next one may take twice as long (RFC 6298, rule 5.5), up to the cap.
  void overdue(duration waited) noexcept { observe(std::min(waited * 2, options_.cap)); }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] duration mean() const noexcept { return from_seconds(mean_); }
  [[nodiscard]] duration deviation() const noexcept { return from_seconds(deviation_); }

  /// mean + K deviations, within floor and cap.
  [[nodiscard]] duration patience() const noexcept {
    if (count_ == 0) return options_.cap;
    return std::clamp(from_seconds(mean_ + options_.deviations * deviation_), options_.floor, options_.cap);
  }

  /// The deadline of something that starts at `now`.
  [[nodiscard]] time_point deadline(time_point now) const noexcept { return now + patience(); }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(mean_, deviation_, count_);
  }

 private:
  static duration from_seconds(double s) noexcept {
    constexpr double longest = 1e9;  // about 30 years: keeps the conversion within 64 bits
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>{std::min(s, longest)});
  }

  arrival_options options_;
  double mean_ = 0;
  double deviation_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_DEADLINE_HPP

// ---- causeway/membership/situation.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_SITUATION_HPP
#define CAUSEWAY_MEMBERSHIP_SITUATION_HPP

// Between the membership protocol and whoever drives it: how it is set up, what it wants done (effects), and where it
// stands (situation).

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Waits are learned (net/deadline.hpp); what stands here are their floors, and their values before anything was learned.
struct options {
  std::uint64_t run = 0;        ///< messages of another run are refused
  std::string address;          ///< where others can dial this peer
  std::uint32_t expected = 1;   ///< peers that the founder waits for before the first round after its own
  std::uint32_t min_peers = 1;  ///< an attempt takes place with at least so many
  std::uint64_t quota = 0;      ///< samples that each member holds; counts for the founder, others get its ledger
  std::uint64_t budget = 0;     ///< samples of the whole run, 0: no end; as above

  duration heartbeat = std::chrono::seconds{1};
  /// How long the other side may be silent before its connection is given up.
  net::arrival_options silence{.floor = std::chrono::seconds{5}, .cap = std::chrono::seconds{10}};
  /// How long after the first peer the last one is ready.
  net::arrival_options grace{.floor = std::chrono::seconds{2}, .cap = std::chrono::minutes{10}};
  /// But no longer than this part of the time that the first one took, and the floor: who is later loses nothing, its work
  /// counts in the next round, while everybody else would stand still. And no longer than the peers that wait lose less
  /// than those that are waited for: see wait_times::grace_deadline.
  double grace_share = 0.25;
  /// How long a round takes until most of those who train are ready.
  net::arrival_options pace{.floor = std::chrono::seconds{30}, .cap = std::chrono::hours{1}};
  /// How long after the first vote the last one comes.
  net::arrival_options vote{.floor = std::chrono::seconds{5}, .cap = std::chrono::minutes{2}};
  /// How long after its beginning an exchange brings the first vote. Who drives the protocol has its own deadline; this one
  /// is for a trainer that hangs, and is doubled.
  net::arrival_options exchange{.floor = std::chrono::seconds{30}, .cap = std::chrono::hours{1}};
  /// Failed attempts at a round after which there are pauses between them.
  std::uint32_t max_attempts = 8;
};

/// Why a message was not acted upon.
enum class reject_reason : std::uint8_t {
  wrong_run,     ///< of another run: the connection is ended
  malformed,     ///< not a message of this protocol, or of another version: the connection is ended
  stale_ballot,  ///< below what this peer promised
  wrong_leader,  ///< the term was promised to somebody else
  wrong_round,   ///< not the round after the newest commit
  wrong_parent,  ///< based on another history
  wrong_ledger,  ///< the samples do not add up
  not_ready,     ///< asked to take part with something that this peer did not announce
  unknown_peer,  ///< from somebody who is not connected
  diverged,      ///< another hash than the rest for the same round
  not_a_member,  ///< from somebody whose word does not count in the newest view
  term_jump,     ///< a term too far above the known ones
};
inline constexpr std::size_t reject_reasons = 12;

[[nodiscard]] constexpr std::string_view to_string(reject_reason why) noexcept {
  constexpr std::array<std::string_view, reject_reasons> names{
      "wrong_run",    "malformed", "stale_ballot", "wrong_leader", "wrong_round",  "wrong_parent",
      "wrong_ledger", "not_ready", "unknown_peer", "diverged",     "not_a_member", "term_jump"};
  return names[static_cast<std::size_t>(why)];
}

/// What the protocol wants done. Called from inside the protocol's functions; must not call back into it.
struct effects {
  virtual ~effects() = default;
  /// To a peer that is up; lost without notice where the connection breaks.
  virtual void send(net::peer_id to, std::vector<std::byte> message) = 0;
  /// peer_up or unreachable follows. May be called for an address whose connection stands.
  virtual void dial(const std::string& address) = 0;
  /// Ends the connection; peer_down follows or not.
  virtual void drop(net::peer_id peer, const std::string& why) = 0;
  /// Durable before anything that is sent or noted after it leaves this peer. False: the disk failed; the protocol stops,
  /// and sends nothing that depends on it. Where that shows later, protocol::disk_failed tells.
  [[nodiscard]] virtual bool persist(const durable_record& record) = 0;
  /// Replaces what was asked for before.
  virtual void wake_at(time_point when) = 0;
  /// The leader holds the round back for the transfer of a peer that asked for it (protocol::asks_for_time): tell it.
  virtual void give_time(net::peer_id, duration) {}
  virtual void note(const event&) {}
  virtual void log(severity, std::string_view) {}
};

/// Where a peer stands, for its trainer.
struct situation {
  enum kind : std::uint8_t {
    joining,  ///< looks for the run
    fetch,    ///< the state `hash` of round newest.round is needed: look on the own disk, then ask `holders`; then holds()
    idle,     ///< holds the newest committed state; the trainer trains
    gathering,   ///< ready() was said; others are not ready yet
    exchange,    ///< take part in `current`, then voted() or failed(); nothing to exchange where current.total() is 0
    adopt,       ///< fetch the state `hash` of round current.round from `holders`, make it durable, then voted(current.at)
    committing,  ///< this peer voted; the others have not all answered
    no_quorum,   ///< too few members are within reach; nothing is lost, nothing can be committed
    failed,      ///< this peer is out until it is started again; `why` says what to do
    left,        ///< leave() is complete
  };

  kind is = joining;
  view current;          ///< exchange, adopt, committing. For adopt its members are empty
  commit_record newest;  ///< the newest committed round known
  std::uint64_t hash = 0;
  std::vector<located_peer> holders;
  std::uint64_t changes = 0;  ///< grows with every change of what is above
  std::string why;            ///< for people

  /// What is said of a peer that is out, failed or left.
  [[nodiscard]] error gone() const { return fail(is == left ? errc::cancelled : errc::io_failed, "membership", why); }
};

[[nodiscard]] constexpr std::string_view to_string(situation::kind k) noexcept {
  constexpr std::array<std::string_view, 10> names{"joining", "fetch",      "idle",      "gathering", "exchange",
                                                   "adopt",   "committing", "no_quorum", "failed",    "left"};
  return names[static_cast<std::size_t>(k)];
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_SITUATION_HPP

// ---- causeway/membership/acceptor.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP
#define CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP

// The part of a member on which everything else rests: what it promised, what it voted for, what it knows to be committed.
// Each step is durable before it is told to anybody, each step is refused where it would break an earlier one, and nothing
// else in the protocol writes these values. docs/design/membership.md numbers the rules (A1 to A4).

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// After a failed write, or proof that two histories exist, `broken` says why and every step is refused.
class acceptor {
 public:
  acceptor(durable_record record, effects& fx) : durable_{std::move(record)}, fx_{&fx} {
    know_newest();
    if (durable_.accepted) accepted_chain_ = durable_.accepted->value.chain();
  }

  [[nodiscard]] const durable_record& durable() const noexcept { return durable_; }
  [[nodiscard]] const position& newest() const noexcept { return newest_; }
  /// The newest commit known, for reading and writing what comes after it.
  [[nodiscard]] base_record base() const noexcept { return {durable_.newest ? &*durable_.newest : nullptr, newest_.chain}; }
  /// chain() of the value voted for, 0 where there is none.
  [[nodiscard]] std::uint64_t accepted_chain() const noexcept { return accepted_chain_; }
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }

  [[nodiscard]] bool is_member(net::peer_id peer) const {
    return std::binary_search(members_.begin(), members_.end(), peer);
  }

  void note_boot(time_point now) {
    event e = about(event::boot, now);
    e.at = durable_.floor;
    e.chain = newest_.chain;
    e.round = newest_.round;
    e.from = durable_.promised_to;
    e.hash = accepted_chain_;
    if (durable_.accepted) e.voted = durable_.accepted->at;
    fx_->note(e);
    if (durable_.newest) note_newest(now);
  }

  /// A1: a term is promised once, to one peer, and never a lower one afterwards.
  bool promise(std::uint32_t term, net::peer_id to, time_point now) {
    if (!broken_.empty() || term < durable_.floor.term || term > ballot::max_term) return false;
    if (term == durable_.floor.term) return durable_.promised_to == to;
    durable_.floor = {term, 0};
    durable_.promised_to = to;
    if (!save()) return false;
    event e = about(event::promise, now);
    e.at = durable_.floor;
    e.from = to;
    fx_->note(e);
    return true;
  }

  /// A2: never votes below `floor` any more. Only within the promised term.
  bool bar(ballot floor, time_point now) {
    if (!broken_.empty() || floor.term != durable_.floor.term) return false;
    if (floor <= durable_.floor) return true;
    durable_.floor = floor;
    if (!save()) return false;
    event e = about(event::bar, now);
    e.at = durable_.floor;
    fx_->note(e);
    return true;
  }

  /// A3: votes only in the promised term, never below its floor, and only for a round that follows the newest commit.
  bool accept(ballot at, const commit_record& value, time_point now) {
    if (!broken_.empty() || at.term != durable_.floor.term || at < durable_.floor || !follows(value)) return false;
    if (durable_.accepted && durable_.accepted->at == at && durable_.accepted->value != value) return false;
    durable_.floor = at;
    durable_.accepted = acceptance{at, value};
    if (!save()) return false;
    accepted_chain_ = value.chain();
    event e = about(event::accept, now);
    e.at = at;
    e.round = value.round;
    e.hash = accepted_chain_;
    e.parent = value.parent;
    fx_->note(e);
    return true;
  }

  /// Whether `value` could be the next commit: run, round, parent and the sample ledger fit what is known.
  [[nodiscard]] bool follows(const commit_record& value) const {
    return newest_.known() && value.run == durable_.run && value.round == newest_.round + 1 &&
           value.parent == newest_.chain && !value.members.empty() &&
           (same_samples(value) || durable_.samples.fits(value)) && value.ledger == hash_after(value);
  }

  /// Of the sample ledger once `value` is applied. Precondition: it fits. The last one is kept: a round asks three times.
  [[nodiscard]] std::uint64_t hash_after(const commit_record& value) const {
    if (!same_samples(value)) {
      after_ = durable_.samples;
      after_.apply(value);
      after_hash_ = after_.hash();
      after_of_ = value;
    }
    return after_hash_;
  }

  /// A4: a commit is a fact, whoever tells it. True: it is new, and known from now on. False: known before, or it cannot be
  /// applied (a commit before it is missing), or two histories exist.
  bool learn(const commit_record& record, time_point now, const certificate& votes = {}) {
    if (!broken_.empty() || !newest_.known() || record.round > newest_.round + 1) return false;
    if (record.round < newest_.round) return false;
    if (record.round == newest_.round) return expect_same(record), false;
    if (record.run != durable_.run) return false;
    if (!follows(record)) return fork(record), false;
    return take(record, after_, votes, now);
  }

  /// The same where commits between were missed; `samples` is the ledger after it.
  bool learn(const commit_record& record, const ledger& samples, time_point now, const certificate& votes = {}) {
    if (!broken_.empty() || record.run != durable_.run || record.members.empty()) return false;
    if (newest_.known() && record.round < newest_.round) return false;
    if (newest_.known() && record.round == newest_.round) return expect_same(record), false;
    if (newest_.known() && record.round == newest_.round + 1 && record.parent != newest_.chain) return fork(record), false;
    if (samples.hash() != record.ledger) return false;
    return take(record, samples, votes, now);
  }

  /// Keeps where others can be dialled; written with the next step that has to be written anyway.
  void remember(std::vector<located_peer> others) { durable_.others = std::move(others); }

  /// The last step could not be made durable after all: nobody may hear of it, nor of anything else.
  void lose_disk() { broken_ = disk_failed; }

 private:
  static constexpr const char* disk_failed =
      "the membership record could not be written: mend the disk, then start this peer again";

  [[nodiscard]] event about(event::kind what, time_point now) const {
    event e;
    e.what = what;
    e.at_time = now;
    e.peer = durable_.self;
    return e;
  }

  /// Writes what was just changed. After a failure nobody hears of the change, or of anything else.
  bool save() {
    if (fx_->persist(durable_)) return true;
    lose_disk();
    return false;
  }

  bool take(const commit_record& record, const ledger& samples, const certificate& votes, time_point now) {
    durable_.newest = record;
    durable_.votes = votes;
    durable_.samples = samples;
    durable_.accepted.reset();
    if (!save()) return false;
    know_newest();
    accepted_chain_ = 0;
    note_newest(now);
    return true;
  }

  void know_newest() {
    if (!durable_.newest) return;
    newest_ = {durable_.newest->round, durable_.newest->chain()};
    members_ = durable_.newest->members;
    std::sort(members_.begin(), members_.end());
  }

  [[nodiscard]] bool same_samples(const commit_record& value) const {
    return after_of_.parent == newest_.chain && after_of_.parent == value.parent && after_of_.members == value.members &&
           after_of_.contributions == value.contributions && after_of_.returned == value.returned;
  }

  void note_newest(time_point now) {
    const commit_record& record = *durable_.newest;
    event e = about(event::commit, now);
    e.at = record.at;
    e.round = record.round;
    e.hash = record.state;
    e.parent = record.parent;
    e.chain = newest_.chain;
    e.ledger = record.ledger;
    e.members = record.members;
    e.contributions = record.contributions;
    e.returned = record.returned;
    fx_->note(e);
  }

  void expect_same(const commit_record& record) {
    if (record.chain() != newest_.chain) fork(record);
  }

  /// Cannot happen while every member keeps its durable record. Going on would make it worse.
  void fork(const commit_record& record) {
    broken_ = "round " + std::to_string(record.round) +
              " was committed twice with different contents: a member lost its durable record and kept its id, or two runs "
              "share an id. Stop the run and keep the side whose checkpoints you trust";
    fx_->log(severity::error, broken_);
  }

  durable_record durable_;
  effects* fx_;
  position newest_;
  std::uint64_t accepted_chain_ = 0;
  std::string broken_;
  std::vector<net::peer_id> members_;  // of the newest commit, ascending
  mutable ledger after_;               // of after_of_
  mutable std::uint64_t after_hash_ = 0;
  mutable commit_record after_of_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP

// ---- causeway/membership/attempt.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_ATTEMPT_HPP
#define CAUSEWAY_MEMBERSHIP_ATTEMPT_HPP

// A leader's book-keeping: who was asked to make a round and what they answered, and how long such things take.

#include <set>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// One ballot: an exchange, or the adoption of a value that earlier voters hold.
class attempt {
 public:
  void begin_exchange(ballot at, commit_record proposal, const std::vector<net::peer_id>& who, time_point now) {
    begin(kind::exchange, at, std::move(proposal), who, now);
  }
  void begin_adoption(ballot at, commit_record value, const std::vector<net::peer_id>& who, time_point now) {
    begin(kind::adoption, at, std::move(value), who, now);
  }
  void over() { *this = attempt{}; }
  void wait_for_record() { kind_ = kind::recorded; }

  /// One more for an adoption.
  void ask(net::peer_id id) {
    if (!asked_.insert(id).second) gone_.erase(id);
  }

  void voted(net::peer_id id, std::uint64_t state, time_point now) {
    if (!asked_.contains(id) || votes_.contains(id)) return;
    if (votes_.empty()) first_vote_ = now;
    last_vote_ = now;
    votes_[id] = state;
    gone_.erase(id);
  }
  void failed(net::peer_id id) {
    if (asked_.contains(id) && !votes_.contains(id)) gone_.insert(id);
  }
  void lost(net::peer_id id) { failed(id); }

  /// The state that a quorum voted for.
  [[nodiscard]] std::optional<std::uint64_t> choice(const std::vector<net::peer_id>& members) const {
    if (2 * votes_.size() < members.size()) return std::nullopt;
    std::map<std::uint64_t, std::vector<net::peer_id>> by_state;
    for (const auto& [id, state] : votes_) by_state[state].push_back(id);
    for (const auto& [state, voters] : by_state) {
      if (kind_ == kind::adoption && state != proposal_.state) continue;
      if (is_quorum(members, voters)) return state;
    }
    return std::nullopt;
  }

  /// Those of `members` who voted for it.
  [[nodiscard]] certificate votes_for(std::uint64_t state, const std::vector<net::peer_id>& members) const {
    certificate votes;
    for (const net::peer_id id : members) {
      if (voted_for(id, state)) votes.push_back({id, {}});
    }
    return votes;
  }

  [[nodiscard]] bool running() const noexcept { return kind_ != kind::none; }
  [[nodiscard]] bool adopting() const noexcept { return kind_ == kind::adoption; }
  [[nodiscard]] bool recorded() const noexcept { return kind_ == kind::recorded; }
  [[nodiscard]] ballot at() const noexcept { return at_; }
  [[nodiscard]] const commit_record& proposal() const noexcept { return proposal_; }
  [[nodiscard]] const std::set<net::peer_id>& asked() const noexcept { return asked_; }
  [[nodiscard]] bool all_answered() const noexcept { return votes_.size() + gone_.size() >= asked_.size(); }
  [[nodiscard]] bool somebody_gone() const noexcept { return !gone_.empty(); }
  [[nodiscard]] bool somebody_voted() const noexcept { return !votes_.empty(); }
  [[nodiscard]] bool voted(net::peer_id id) const { return votes_.contains(id); }
  [[nodiscard]] bool silent(net::peer_id id) const { return !votes_.contains(id) && !gone_.contains(id); }
  [[nodiscard]] bool voted_for(net::peer_id id, std::uint64_t state) const {
    const auto vote = votes_.find(id);
    return vote != votes_.end() && vote->second == state;
  }
  [[nodiscard]] bool diverged(net::peer_id id, std::uint64_t state) const {
    const auto vote = votes_.find(id);
    return vote != votes_.end() && vote->second != state;
  }
  [[nodiscard]] time_point began() const noexcept { return began_; }
  [[nodiscard]] time_point first_vote() const noexcept { return first_vote_; }
  [[nodiscard]] time_point last_vote() const noexcept { return last_vote_; }

  [[nodiscard]] std::string summary() const {
    return std::to_string(votes_.size()) + " of " + std::to_string(asked_.size()) + " voted, " +
           std::to_string(gone_.size()) + " failed or are gone";
  }

 private:
  enum class kind : std::uint8_t { none, exchange, adoption, recorded };

  void begin(kind k, ballot at, commit_record value, const std::vector<net::peer_id>& who, time_point now) {
    *this = attempt{};
    kind_ = k;
    at_ = at;
    proposal_ = std::move(value);
    asked_ = {who.begin(), who.end()};
    began_ = now;
  }

  kind kind_ = kind::none;
  ballot at_;
  commit_record proposal_;
  std::set<net::peer_id> asked_;
  std::map<net::peer_id, std::uint64_t> votes_;  ///< state hashes
  std::set<net::peer_id> gone_;                  ///< failed or lost before they voted
  time_point began_;
  time_point first_vote_;
  time_point last_vote_;
};

/// How long a leader waits for what, learned from the run.
class wait_times {
 public:
  explicit wait_times(const options& o)
      : options_{o},
        grace_{o.grace},
        vote_{o.vote},
        exchange_{o.exchange},
        pace_{o.pace},
        answer_{{.floor = o.grace.floor, .cap = o.silence.cap}} {}

  void begin_round(time_point now) {
    ready_.clear();
    enough_ = false;
    late_at_first_ = 0;
    begun_ = enough_at_ = last_ready_ = failed_at_ = now;
  }

  /// True: for the first time in this round.
  bool somebody_ready(time_point now, net::peer_id id) {
    if (!ready_.insert(id).second) return false;
    last_ready_ = now;
    return true;
  }

  /// Those who are ready could make the round. Who brings work from an earlier one is ready at once and says nothing of how
  /// long this one takes, so the wait for the others begins here. `samples`: what most of them bring at least.
  void enough_ready(time_point now, std::uint64_t samples) {
    if (std::exchange(enough_, true)) return;
    enough_at_ = now;
    pace_.observe(now - begun_);
    if (samples > 0) sample_time_ = (now - begun_) / static_cast<duration::rep>(samples);
  }
  /// How long a peer takes to train so many samples, after the last round that had any; 0: nothing is known.
  [[nodiscard]] duration training_time(std::uint64_t samples) const {
    return sample_time_ * static_cast<duration::rep>(std::min(samples, most_samples));
  }
  [[nodiscard]] bool had_enough() const noexcept { return enough_; }
  /// By when most of those who train should be ready, after earlier rounds.
  [[nodiscard]] time_point pace_deadline() const { return begun_ + pace_.patience(); }

  [[nodiscard]] std::size_t ready_count() const noexcept { return ready_.size(); }

  /// The round's first attempt begins: those who made it teach us how long they take.
  void began(std::uint32_t failures) {
    if (failures == 0 && ready_.size() > 1) grace_.observe(std::max(last_ready_ - enough_at_, duration{0}));
  }
  void failed(time_point now) { failed_at_ = now; }
  /// All who took part in the failed attempt are ready for another.
  void answered(time_point now) { answer_.observe(now - failed_at_); }

  void committed(const attempt& a) {
    if (a.adopting() || !a.somebody_voted()) return;
    vote_.observe(a.last_vote() - a.first_vote());
    if (!a.proposal().contributions.empty()) exchange_.observe(a.first_vote() - a.began());
  }

  /// Who is left out is idle until the next round, and has to catch up; who waits is idle meanwhile. So one of many is
  /// waited for as long as that is the smaller loss: after each that comes, for the ones still missing anew, and in all for
  /// no longer than was worth it for those who were missing at the beginning. `late`: part of the peers that would be
  /// waited for.
  [[nodiscard]] time_point grace_deadline(double late) {
    late_at_first_ = std::max(late_at_first_, late);
    const duration round = enough_at_ - begun_;
    const duration most = std::max(part_of(round, options_.grace_share), options_.grace.floor);
    const duration lost = round + catch_up_time();
    const duration whole = std::min({grace_.patience(), most, part_of(lost, late_at_first_)});
    return std::min(enough_at_ + whole, std::max(enough_at_, last_ready_) + part_of(lost, late));
  }
  /// By when those of a failed attempt have confirmed its end and are ready again, or are known to be silent or to hang.
  [[nodiscard]] time_point answer_deadline() const { return failed_at_ + answer_.patience(); }

  [[nodiscard]] time_point attempt_deadline(const attempt& a) const {
    if (a.adopting() || a.recorded()) return no_deadline;
    if (a.somebody_voted()) return a.first_vote() + vote_.patience();
    return a.began() + 2 * exchange_.patience();
  }

  /// No attempt before: pauses that double once max_attempts failed.
  [[nodiscard]] time_point pause_until(std::uint32_t failures) const {
    if (failures <= options_.max_attempts) return {duration::min()};
    return failed_at_ + options_.heartbeat * (1U << std::min(failures - options_.max_attempts - 1, 6U));
  }

 private:
  static constexpr std::uint64_t most_samples = std::uint64_t{1} << 20U;

  // What a round exchanged has to be sent once more.
  [[nodiscard]] duration catch_up_time() const {
    return exchange_.count() == 0 ? options_.grace.floor : exchange_.patience();
  }

  static duration part_of(duration whole, double part) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>{part * seconds(whole)});
  }

  options options_;
  net::arrival_statistics grace_;
  net::arrival_statistics vote_;
  net::arrival_statistics exchange_;
  net::arrival_statistics pace_;
  net::arrival_statistics answer_;
  std::set<net::peer_id> ready_;
  time_point begun_;
  duration sample_time_{0};
  bool enough_ = false;
  time_point enough_at_;
  double late_at_first_ = 0;  ///< part of the peers that was missing when there were enough
  time_point last_ready_;
  time_point failed_at_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_ATTEMPT_HPP

// ---- causeway/membership/term_limit.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP
#define CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP

// How quickly the term of a peer may grow. Terms are numbered through once in the life of a run, so whoever could make them
// jump could end it. Honest terms grow by about one for each election: they pass at once. A larger jump passes as well, but
// only after as many heartbeats as it is too large, so that no honest peer is shut out for ever.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// A regular value. Forgets everything with the process.
class term_limit {
 public:
  explicit term_limit(duration heartbeat) : heartbeat_{heartbeat} {}

  /// Whether a term may become `wanted` now where `known` is the highest that is beyond doubt. If so, the growth is spent.
  bool allow(std::uint32_t known, std::uint32_t wanted, time_point now) {
    if (wanted <= known) return true;
    refill(now);
    const std::uint64_t growth = wanted - known;
    if (growth > saved_ && now - last_refused_ > longest_between * heartbeat_) refused_since_ = now;
    if (growth > saved_ + beats(now - refused_since_)) {
      last_refused_ = now;
      return false;
    }
    saved_ -= std::min(saved_, growth);
    refused_since_ = last_refused_ = now;
    return true;
  }

  /// Growth that needs no wait.
  static constexpr std::uint64_t burst = 64;

 private:
  [[nodiscard]] std::uint64_t beats(duration d) const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(d / std::max(heartbeat_, duration{1}), 0));
  }

  void refill(time_point now) {
    const std::uint64_t more = beats(now - filled_);
    if (more == 0) return;
    saved_ = std::min(burst, saved_ + more);
    filled_ = now;
  }

  static constexpr int longest_between = 16;  // a candidate asks again after 9 at most

  duration heartbeat_;
  std::uint64_t saved_ = burst;
  time_point filled_;
  time_point refused_since_;
  time_point last_refused_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_TERM_LIMIT_HPP

// ---- causeway/membership/peer_table.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP
#define CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP

// What the parts of a protocol share: the peers met so far, the acceptor, and the way out. A message to ourselves waits in
// a queue until the current event is done, so that a leader is a member like any other.

#include <deque>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// What we know of one peer. Down, and nothing said, in the beginning.
struct peer_entry {
  std::string address;
  bool up = false;
  time_point heard;               ///< when it last said anything
  net::arrival_statistics beats;  ///< between its answers to heartbeats, or between its heartbeats
  std::uint32_t last_beat = 0;    ///< number of the last one
  time_point beat_at;             ///< when it came

  position word;          ///< the newest commit it has named on this connection
  confirmation answer;    ///< its last answer to an inquiry on this connection
  bool answered = false;  ///< an inquiry, on this connection
  bool asks = false;      ///< waits for our word on a commit that we did not know when it asked

  // As its leader sees it.
  std::optional<report> said;     ///< on this connection
  std::uint64_t holds_round = 0;  ///< the newest round whose state it has told us to hold
  std::uint64_t rounds_told = 0;  ///< the newest round it was told on this connection
  time_point told_at;             ///< when that was
  ballot told_floor;              ///< the newest abort it was told on this connection
  ballot told_adoption;
  std::uint64_t renewed_for = 0;  ///< the round for which a new term was taken because of it
  std::uint32_t rounds_down = 0;  ///< commits since it was last up
  std::uint32_t wasted = 0;       ///< graces in a row that it did not use
  std::uint32_t unwaited = 0;     ///< rounds that are not held up for it
  std::uint32_t exclusions = 0;   ///< one less after `sound_rounds` rounds without trouble
  std::uint32_t sound = 0;        ///< rounds that it voted for since the last exclusion, or since one was forgiven
  std::uint32_t unvoted = 0;      ///< rounds in a row that it took part in and did not vote for
  std::uint32_t pause = 0;        ///< attempts that it still sits out
};

/// Shared by the parts of one protocol.
class peer_table {
 public:
  peer_table(options o, durable_record record, effects& fx)
      : settings{std::move(o)},
        votes{std::move(record), fx},
        out{&fx},
        self{votes.durable().self},
        terms_{settings.heartbeat} {
    entry(self).up = true;
    entry(self).address = settings.address;
  }

  const options settings;
  acceptor votes;
  effects* const out;
  const net::peer_id self;
  time_point now;
  std::map<net::peer_id, peer_entry> peers;  ///< ourselves included
  std::deque<message> to_self;
  std::set<std::string> seeds;   ///< addresses that this peer was started with
  std::set<net::peer_id> roots;  ///< who told us of the run when we knew nobody of it
  net::peer_id vouched = 0;      ///< the leader that somebody we believe pointed to

  /// Whether its word counts: a member of the newest view known, or whom this peer has promised to follow, who was one.
  [[nodiscard]] bool believed(net::peer_id id) const {
    return votes.is_member(id) || (id != 0 && id == votes.durable().promised_to);
  }
  /// Whether it may lead: the leader need not be a member any more, and is then known through those who follow it.
  [[nodiscard]] bool may_lead(net::peer_id id) const { return votes.newest().known() && (believed(id) || id == vouched); }
  /// Whether this peer has met it in the run before, or was sent to it.
  [[nodiscard]] bool acquainted(net::peer_id id) const {
    const auto& book = votes.durable().others;
    const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
    if (believed(id) || roots.contains(id) || (at != book.end() && at->peer == id)) return true;
    const peer_entry* p = find(id);
    return p != nullptr && seeds.contains(p->address);
  }

  /// Where this peer was sent, but for its own address.
  [[nodiscard]] std::set<std::string> other_seeds() const {
    std::set<std::string> others = seeds;
    others.erase(settings.address);
    return others;
  }
  [[nodiscard]] bool all_seeds_answered() const {
    std::set<std::string> missing = other_seeds();
    for (const auto& [id, p] : peers) {
      if (p.up && (p.answered || p.word.known())) missing.erase(p.address);
    }
    return missing.empty();
  }

  /// The highest term that is beyond doubt.
  [[nodiscard]] std::uint32_t known_term() const {
    const auto& newest = votes.durable().newest;
    return std::max(votes.durable().floor.term, newest ? newest->at.term : 0);
  }
  /// Whether this term may be promised now; a jump is counted.
  bool allow_term(std::uint32_t term, net::peer_id from) { return allow_term(term, from, known_term()); }
  bool allow_term(std::uint32_t term, net::peer_id from, std::uint32_t known) {
    if (terms_.allow(known, term, now)) {
      highest_allowed_ = std::max(highest_allowed_, term);
      return true;
    }
    reject(reject_reason::term_jump, from);
    return false;
  }
  /// Whether a term that somebody names is near enough to be answered with a higher one.
  [[nodiscard]] bool near(std::uint32_t term) const {
    return term <= highest_allowed_ || term <= known_term() + term_limit::burst;
  }

  [[nodiscard]] peer_entry& entry(net::peer_id id) {
    const auto [at, added] = peers.try_emplace(id);
    if (added) at->second.beats = net::arrival_statistics{settings.silence};
    return at->second;
  }

  [[nodiscard]] const peer_entry* find(net::peer_id id) const {
    const auto at = peers.find(id);
    return at == peers.end() ? nullptr : &at->second;
  }

  [[nodiscard]] bool up(net::peer_id id) const {
    const peer_entry* p = find(id);
    return p != nullptr && p->up;
  }

  /// From the peer itself, or from others who met it; empty where nobody said.
  [[nodiscard]] std::string address_of(net::peer_id id) const {
    const peer_entry* p = find(id);
    if (p != nullptr && !p->address.empty()) return p->address;
    const auto& book = votes.durable().others;
    const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
    return at == book.end() || at->peer != id ? std::string{} : at->address;
  }

  /// Those of `who` whose address is known.
  [[nodiscard]] std::vector<located_peer> places_of(const std::vector<net::peer_id>& who) const {
    std::vector<located_peer> list;
    for (const net::peer_id id : who) {
      located_peer p{id, id == self ? settings.address : address_of(id)};
      if (!p.address.empty()) list.push_back(std::move(p));
    }
    return list;
  }

  /// As said by leaders, not as seen from here: all who took part have the same.
  [[nodiscard]] std::string remembered_address(net::peer_id id) const {
    const auto& book = votes.durable().others;
    const auto at = std::lower_bound(book.begin(), book.end(), id, by_peer);
    return at == book.end() || at->peer != id ? std::string{} : at->address;
  }

  /// For a leader: which addresses of the view others cannot have heard of, and a name for all of them.
  void say_places(go& m) const {
    for (const view_member& v : m.who.members) {
      if (!v.address.empty() && v.address != remembered_address(v.peer)) m.news.push_back({v.peer, v.address});
    }
    m.places = detail::places_of(m.who);
  }

  /// Keeps where peers are, ourselves not among them; written with the next durable step.
  void remember(std::vector<located_peer> met) {
    std::erase_if(met, [&](const located_peer& p) { return p.peer == self || p.address.empty(); });
    std::sort(met.begin(), met.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
    met.erase(std::unique(met.begin(), met.end(), [](const auto& x, const auto& y) { return x.peer == y.peer; }),
              met.end());
    const auto& book = votes.durable().others;
    const auto known = [&](const located_peer& p) {
      const auto at = std::lower_bound(book.begin(), book.end(), p.peer, by_peer);
      return at != book.end() && *at == p;
    };
    if (std::all_of(met.begin(), met.end(), known)) return;
    std::vector<located_peer> all = met;
    for (const located_peer& p : book) {
      const auto at = std::lower_bound(met.begin(), met.end(), p.peer, by_peer);
      if (all.size() < max_members && (at == met.end() || at->peer != p.peer)) all.push_back(p);
    }
    std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.peer < y.peer; });
    votes.remember(std::move(all));
  }

  /// C of the newest commit known; nobody where none is known.
  [[nodiscard]] const std::vector<net::peer_id>& members() const {
    static const std::vector<net::peer_id> none;
    const auto& newest = votes.durable().newest;
    return newest ? newest->members : none;
  }

  /// The members for which `test(id, entry)` holds. Entries of members exist: see remember_members.
  template <class Test>
  [[nodiscard]] std::vector<net::peer_id> members_that(Test test) const {
    std::vector<net::peer_id> chosen;
    for (const net::peer_id id : members()) {
      const peer_entry* p = find(id);
      if (p != nullptr && test(id, *p)) chosen.push_back(id);
    }
    return chosen;
  }

  /// At most `most` of the peers that have voted for `value`: they hold its state.
  [[nodiscard]] std::vector<located_peer> voters_for(const commit_record& value, std::size_t most) const {
    std::vector<located_peer> list;
    for (const auto& [id, p] : peers) {
      if (list.size() == most) break;
      if (p.up && p.said && p.said->accepted && p.said->accepted->value == value) list.push_back({id, p.address});
    }
    return list;
  }

  [[nodiscard]] bool quorum_up() const {
    return is_quorum(members(), members_that([](net::peer_id, const peer_entry& p) { return p.up; }));
  }

  /// Whether it has promised somebody else a term of ours or above.
  [[nodiscard]] bool promised_elsewhere(const peer_entry& p) const {
    if (!p.up || !p.said) return false;
    const std::uint32_t term = votes.durable().floor.term;
    return p.said->floor.term > term || (p.said->floor.term == term && p.said->promised_to != self);
  }
  /// As far as a leader knows: a quorum is within reach that has promised nothing to anybody else.
  [[nodiscard]] bool quorum_follows() const {
    const auto may_follow = [&](net::peer_id, const peer_entry& p) { return p.up && !promised_elsewhere(p); };
    return is_quorum(members(), members_that(may_follow));
  }

  /// Nothing leaves a peer whose record could not be written.
  void post(net::peer_id to, const message& m) {
    if (!votes.broken().empty()) return;
    if (to == self) {
      to_self.push_back(m);
    } else if (up(to)) {
      out->send(to, encode(settings.run, m, votes.base()));
    }
  }

  /// The same bytes to many.
  void post_all(const std::vector<net::peer_id>& to, const message& m) {
    if (!votes.broken().empty()) return;
    const std::vector<std::byte> bytes = encode(settings.run, m, votes.base());
    for (const net::peer_id id : to) {
      if (id == self) {
        to_self.push_back(m);
      } else if (up(id)) {
        out->send(id, bytes);
      }
    }
  }

  void reject(reject_reason why, net::peer_id from) {
    ++rejected_[static_cast<std::size_t>(why)];
    event e;
    e.what = event::reject;
    e.at_time = now;
    e.peer = self;
    e.from = from;
    e.text = to_string(why);
    out->note(e);
  }
  [[nodiscard]] std::uint64_t rejected(reject_reason why) const { return rejected_[static_cast<std::size_t>(why)]; }

  /// Some peers that others may ask: those within reach first.
  [[nodiscard]] std::vector<located_peer> some_peers(std::size_t limit) const {
    std::vector<located_peer> list;
    for (const auto& [id, p] : peers) {
      if (list.size() < limit && id != self && p.up && !p.address.empty()) list.push_back({id, p.address});
    }
    for (const located_peer& p : votes.durable().others) {
      if (list.size() < limit && !up(p.peer)) list.push_back(p);
    }
    return list;
  }

  void note_leads(std::uint32_t term) {
    event e;
    e.what = event::lead;
    e.at_time = now;
    e.peer = self;
    e.at = {term, 0};
    e.round = votes.newest().round + 1;
    out->note(e);
  }

  /// Dials a few of those who were here once, others each time: they may be unable to find us, and what they hold waits for
  /// them. `called`: how many before; gives that of the next time.
  [[nodiscard]] std::size_t call_the_lost(std::size_t called) {
    std::vector<std::string> lost;
    for (const located_peer& p : votes.durable().others) {
      if (!up(p.peer)) lost.push_back(address_of(p.peer));
    }
    for (std::size_t i = 0; i < std::min(called_at_once, lost.size()); ++i) out->dial(lost[called++ % lost.size()]);
    return called;
  }

 private:
  static constexpr std::size_t called_at_once = 8;

  static bool by_peer(const located_peer& p, net::peer_id id) { return p.peer < id; }

  std::array<std::uint64_t, reject_reasons> rejected_{};
  term_limit terms_;
  std::uint32_t highest_allowed_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_PEER_TABLE_HPP

// ---- causeway/membership/suspects.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP
#define CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP

// Who has to sit out so that the next attempt does not fail as the last one did. A report "my link to s failed" is an edge
// between two peers, one of which has to go; a peer that failed by itself is an edge to itself. The peers to leave out are
// a small vertex cover of these edges.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// One complaint: `by` could not exchange with `about`. by == about: it failed by itself.
struct complaint {
  net::peer_id by = 0;
  net::peer_id about = 0;

  friend auto operator<=>(const complaint&, const complaint&) = default;
};

/// How often each peer was one of two of whom one had to be at fault.
using dispute_counts = std::map<net::peer_id, std::uint32_t>;
/// A complaint, and what its peer saw.
struct failed_link {
  complaint link;
  errc why = errc::peer_lost;
};

/// Peers out of `order` that explain all complaints, taken greedily: who fails by itself, then who is in most of what is
/// left; of equals the one with more `disputes`, then the one later in `order`; `spared` (the leader) only against peers in
/// fewer. Greedy is smallest for the patterns that links make (stars and single pairs) and at most a factor ln n off. Who
/// complains of others without reason, each time of somebody else, is found the second time. Cost: O(n · complaints).
[[nodiscard]] inline std::vector<net::peer_id> explain(const std::vector<complaint>& complaints,
                                                       const std::vector<net::peer_id>& order, net::peer_id spared,
                                                       const dispute_counts& disputes = {}) {
  const auto disputed = [&](net::peer_id id) { return disputes.contains(id) ? disputes.at(id) : 0U; };
  std::vector<complaint> edges;
  for (const complaint& c : complaints) {  // a link is one edge, whoever complains of it
    if (contains(order, c.by) && contains(order, c.about)) {
      edges.push_back({std::min(c.by, c.about), std::max(c.by, c.about)});
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());

  std::vector<net::peer_id> out;
  while (!edges.empty()) {
    std::map<net::peer_id, std::size_t> weight;
    for (const complaint& e : edges) {
      weight[e.by] += e.by == e.about ? edges.size() + 1 : 1;
      if (e.by != e.about) ++weight[e.about];
    }
    net::peer_id worst = 0;
    for (const net::peer_id id : order) {
      const std::size_t w = weight.contains(id) ? weight[id] : 0;
      if (w == 0) continue;
      const bool more = worst == 0 || w > weight[worst];
      const bool equal = worst != 0 && w == weight[worst];
      const bool as_often = disputed(id) == disputed(worst) && id != spared;
      if (more || (equal && (disputed(id) > disputed(worst) || as_often))) worst = id;
    }
    std::erase_if(edges, [&](const complaint& e) { return e.by == worst || e.about == worst; });
    out.push_back(worst);
  }
  return out;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_SUSPECTS_HPP

// ---- causeway/membership/blame.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_BLAME_HPP
#define CAUSEWAY_MEMBERSHIP_BLAME_HPP

// Whose fault a failed attempt was, and who sits out for it. Evidence, the strongest first: a peer that does not come out
// of the attempt while its connection stands (it hangs); one that took part and did not vote; what peers saw themselves of
// each other (suspects.hpp); and where nobody saw anything, which halves of the peers attempts fail with.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// Of one leader. Pauses are peer_entry::pause, which attempts count down. Not thread-safe.
class blame {
 public:
  explicit blame(peer_table& t) : t_{t} {}

  // ---- what happens -----------------------------------------------------------------------------------------------------

  void begin_round() { owing_.clear(); }  // complaints stay: who cannot exchange data would hold this round up as well
  void begin_exchange(ballot at, const std::vector<net::peer_id>& who) {
    last_at_ = at;
    last_order_ = who;
  }
  void begin_adoption(ballot at) { last_at_ = at; }

  void on(net::peer_id from, const failure& m) {
    if (m.at != last_at_) return;
    if (m.suspects.empty() && m.why != errc::cancelled) unexplained_ = true;  // who ends it of its own accord blames nobody
    for (const net::peer_id id : m.suspects) complaints_.push_back({{from, id}, m.why});
  }

  void failed(const attempt& a) {
    for (const net::peer_id id : a.asked()) {
      if (!t_.up(id)) somebody_lost_ = true;
      if (a.adopting()) continue;
      owing_.push_back(id);
      if (t_.up(id) && a.silent(id) && a.somebody_voted()) complaints_.push_back({{id, id}, errc::timeout});
    }
  }

  /// A round was made: who took part is not what spoils attempts; who voted is sound, and who did not is found out.
  void committed(const attempt& a, net::peer_id id, peer_entry& p) {
    if (a.adopting() || !a.asked().contains(id)) return;
    std::erase(narrowed_, id);
    if (a.silent(id) && ++p.unvoted > unvoted_allowed) exclude(id, "it takes part in rounds and does not vote for them");
    if (!a.voted(id)) return;
    for (failed_link& c : complaints_) {
      if (c.link.about == id) c.link.about = c.link.by;  // who complained of it could have voted, too
    }
    p.unvoted = 0;
    if (++p.sound < sound_rounds) return;
    p.sound = 0;
    p.exclusions -= std::min(p.exclusions, 1U);
    if (const auto at = disputes_.find(id); at != disputes_.end() && --at->second == 0) disputes_.erase(at);
  }

  /// Whether it was asked for the last exchange.
  [[nodiscard]] bool took_part(net::peer_id id) const { return contains(last_order_, id); }
  [[nodiscard]] const std::vector<net::peer_id>& last_order() const noexcept { return last_order_; }

  // ---- who sits out -----------------------------------------------------------------------------------------------------

  /// Somebody who took part in the failed attempt, is here, and is not `ready(id)` again: until it is, or has been waited
  /// for in vain, nobody knows whose fault it was. 0: nobody.
  template <class Ready>
  [[nodiscard]] net::peer_id owes_answer(const Ready& ready) const {
    const auto owes = [&](net::peer_id id) { return t_.up(id) && !ready(id); };
    const auto at = std::find_if(owing_.begin(), owing_.end(), owes);
    return at == owing_.end() ? 0 : *at;
  }
  /// Whether an attempt failed and nobody was found out yet.
  [[nodiscard]] bool is_open() const noexcept { return !owing_.empty(); }

  /// Turns what is known into peers that sit out, each time for longer. `could_go(who)`: whether `who` is enough for
  /// another attempt; `here`: all who could take part in it.
  template <class Ready, class CouldGo>
  void decide(const Ready& ready, const std::vector<net::peer_id>& here, const CouldGo& could_go) {
    const bool open = is_open();
    std::vector<net::peer_id> out = exclude_stuck(ready);
    const std::vector<complaint> links = open_complaints(out);
    const std::vector<net::peer_id> found = explain(links, last_order_, t_.self, disputes_);
    for (const net::peer_id id : found) exclude(id, "what it sent did not come or could not be used; see the logs");
    note_disputes(links);
    const bool explained = !found.empty() || !out.empty() || somebody_lost_;
    if (open && unexplained_ && !explained) narrow_down(here, could_go);
    complaints_.clear();
    owing_.clear();
    unexplained_ = somebody_lost_ = false;
  }

 private:
  /// The others waited for those who have not come out of the failed attempt, or for somebody who did.
  template <class Ready>
  std::vector<net::peer_id> exclude_stuck(const Ready& ready) {
    std::vector<net::peer_id> stuck;
    for (net::peer_id id = owes_answer(ready); id != 0; id = owes_answer(ready)) {
      std::erase(owing_, id);
      stuck.push_back(id);
      exclude(id, "it did not end its part in a failed attempt");
    }
    return stuck;
  }

  /// Complaints that neither a lost peer nor one that is stuck explains.
  [[nodiscard]] std::vector<complaint> open_complaints(const std::vector<net::peer_id>& stuck) const {
    std::vector<complaint> links;
    for (const failed_link& c : complaints_) {
      const bool gone = !t_.up(c.link.by) || !t_.up(c.link.about);
      const bool hung = contains(stuck, c.link.by) || contains(stuck, c.link.about);
      const bool waited = c.why == errc::timeout && c.link.by != c.link.about;  // perhaps for one who waited for another
      if (!gone && !hung && !(waited && (somebody_lost_ || !stuck.empty()))) links.push_back(c.link);
    }
    return links;
  }

  void note_disputes(const std::vector<complaint>& links) {
    std::set<complaint> pairs;
    for (const complaint& c : links) pairs.insert({std::min(c.by, c.about), std::max(c.by, c.about)});
    for (const complaint& c : pairs) {
      if (c.by == c.about) continue;
      ++disputes_[c.by];
      ++disputes_[c.about];
    }
  }

  void exclude(net::peer_id id, const std::string& reason) {
    peer_entry& p = t_.entry(id);
    p.pause = 1U << std::min(p.exclusions, 4U);
    p.sound = 0;
    ++p.exclusions;
    const std::string why = "peer " + std::to_string(id) + " sits out " + std::to_string(p.pause) +
                            (p.pause == 1 ? " attempt: " : " attempts: ") + reason;
    t_.out->log(severity::warning, why);
    t_.post(id, exclusion{why});
  }

  /// Nobody can say who spoilt the attempt: half of those it may be sit the next one out. If that fails too, it is one of
  /// the other half; if not, one of these. So after log2 n attempts one is left.
  template <class CouldGo>
  void narrow_down(std::vector<net::peer_id> here, const CouldGo& could_go) {
    std::erase_if(narrowed_, [&](net::peer_id id) { return !contains(last_order_, id); });
    if (narrowed_.empty()) narrowed_ = last_order_;
    if (narrowed_.size() == 1) {
      exclude(narrowed_.front(), "attempts with it fail");
      narrowed_.clear();
      return;
    }
    for (std::size_t i = narrowed_.size(); i > (narrowed_.size() + 1) / 2; --i) {
      const net::peer_id id = narrowed_[i - 1];
      std::erase(here, id);
      if (!could_go(here)) return;
      t_.entry(id).pause = std::max(t_.entry(id).pause, 1U);
    }
  }

  static constexpr std::uint32_t unvoted_allowed = 1;
  static constexpr std::uint32_t sound_rounds = 4;

  peer_table& t_;
  std::vector<failed_link> complaints_;
  bool unexplained_ = false;         ///< somebody's part in the attempt failed, and it does not know whose fault that was
  bool somebody_lost_ = false;       ///< somebody who took part is gone
  std::vector<net::peer_id> owing_;  ///< who took part in an attempt that failed, until it is known whose fault that was
  std::vector<net::peer_id> narrowed_;  ///< one of these spoils attempts
  dispute_counts disputes_;
  ballot last_at_;                        ///< of the last attempt
  std::vector<net::peer_id> last_order_;  ///< of the last exchange
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_BLAME_HPP

// ---- causeway/core/rng.hpp ----
#ifndef CAUSEWAY_CORE_RNG_HPP
#define CAUSEWAY_CORE_RNG_HPP

// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the n-th number of a (seed, stream) pair is the same on
// every peer, on every machine, whatever was drawn elsewhere. The whole state is three integers.

#include <cmath>
#include <numbers>

namespace causeway::inline CAUSEWAY_ABI {

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

  /// Standard normal (Box and Muller 1958; one of the pair is dropped so that the state stays a counter).
  float normal() noexcept {
    const std::uint64_t bits = next();
    const double u = (static_cast<double>(bits >> 32U) + 0.5) * 0x1.0p-32;
    const double v = static_cast<double>(bits & 0xFFFFFFFFU) * 0x1.0p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(seed_, stream_, position_);
  }

  friend constexpr bool operator==(const rng&, const rng&) = default;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t position_ = 0;
};

/// A stream number from a few integers, so that (purpose, epoch, peer) never collide by accident.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) noexcept {
  const auto words = philox({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32U),
                             static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32U)},
                            a);
  return (std::uint64_t{words[1]} << 32U) | words[0];
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_RNG_HPP

// ---- causeway/membership/candidate.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP
#define CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP

// How a member becomes the leader: first it asks whether a quorum would promise it a term (a trial, which disturbs nobody
// who has a leader), then it asks in earnest. Members try one after the other, beginning with the one that follows the lost
// leader in the membership.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

class candidate {
 public:
  explicit candidate(peer_table& t) : t_{t} {}

  /// There is no leader: asks when our turn comes. `lost` is who led before, 0 where nobody is known.
  void schedule(net::peer_id lost) {
    if (next_try_ == no_deadline) next_try_ = t_.now + turn(lost) + (lost == 0 ? t_.settings.heartbeat : duration{0});
  }

  /// A leader needs a higher term to be followed by everybody.
  void renew() {
    leads_ = true;
    if (phase_ == phase::none && next_try_ == no_deadline) next_try_ = t_.now;
  }

  /// Somebody else was promised a term, or leads.
  void stand_back() {
    phase_ = phase::none;
    next_try_ = no_deadline;
    tries_ = 0;
    leads_ = false;
  }

  /// Asks for a term in earnest, above all that were seen.
  void run() {
    term_ = std::max(t_.votes.durable().floor.term, seen_) + 1;
    if (!t_.votes.promise(term_, t_.self, t_.now)) return;
    begin(phase::campaign);
  }

  /// The own turn, or the end of a try that did not get enough answers.
  void wake() {
    if (t_.now < next_try_) return;
    if (!t_.votes.is_member(t_.self) && !leads_) return stand_back();
    ++tries_;
    term_ = std::max(t_.votes.durable().floor.term, seen_) + 1;
    begin(phase::trial);
  }

  void on(net::peer_id from, const report& m) {
    if (!t_.acquainted(from)) return;
    const std::uint32_t known = std::max(seen_, t_.known_term());
    if (m.floor.term > known && t_.allow_term(m.floor.term, from, known)) seen_ = m.floor.term;
    if (phase_ == phase::trial && m.trial_term == term_) granted_.insert(from);
    if (phase_ == phase::campaign && m.floor.term == term_ && m.promised_to == t_.self) granted_.insert(from);
  }

  void peer_up(net::peer_id id) {
    if (phase_ != phase::none && t_.votes.is_member(id)) t_.post(id, question());
  }

  /// Whether a quorum promised, said once. A trial that succeeded becomes a campaign.
  bool won() {
    if (phase_ == phase::trial && has_quorum()) run();
    if (phase_ != phase::campaign || !has_quorum()) return false;
    const durable_record& d = t_.votes.durable();
    const bool ours = d.floor.term == term_ && d.promised_to == t_.self;  // or we promised a later one meanwhile
    stand_back();
    return ours;
  }

  [[nodiscard]] bool active() const noexcept { return phase_ != phase::none; }
  [[nodiscard]] std::uint32_t term() const noexcept { return term_; }
  [[nodiscard]] std::uint32_t highest_seen() const noexcept { return seen_; }
  [[nodiscard]] time_point next_wake() const noexcept { return next_try_; }
  [[nodiscard]] std::size_t answers() const noexcept { return granted_.size(); }

 private:
  enum class phase : std::uint8_t { none, trial, campaign };

  [[nodiscard]] bool has_quorum() const { return is_quorum(t_.members(), {granted_.begin(), granted_.end()}); }

  [[nodiscard]] campaign question() const { return campaign{term_, phase_ == phase::trial, t_.votes.newest()}; }

  void begin(phase p) {
    phase_ = p;
    granted_ = {t_.self};
    const std::uint32_t wait = std::min<std::uint32_t>(2 + tries_, 8);
    const auto jitter = duration{static_cast<std::int64_t>(mix(t_.self, term_, tries_) %
                                                           static_cast<std::uint64_t>(t_.settings.heartbeat.count() + 1))};
    next_try_ = t_.now + wait * t_.settings.heartbeat + jitter;
    for (const net::peer_id id : t_.members()) {
      if (id != t_.self && !t_.up(id) && !t_.address_of(id).empty()) t_.out->dial(t_.address_of(id));
    }
    std::vector<net::peer_id> others = t_.members();
    std::erase(others, t_.self);
    t_.post_all(others, question());
  }

  /// How long we wait for those before us: half a heartbeat each, less beyond the first eight.
  [[nodiscard]] duration turn(net::peer_id lost) const {
    const auto& c = t_.members();
    const auto place = [&](net::peer_id id) { return std::find(c.begin(), c.end(), id) - c.begin(); };
    const auto n = static_cast<std::ptrdiff_t>(c.size());
    if (n == 0) return duration{0};
    const std::ptrdiff_t first = (place(lost) + 1) % (n + 1) % n;  // nobody: the first in C
    const std::ptrdiff_t k = (place(t_.self) - first + n) % n;
    return std::min<std::int64_t>(k, 8) * t_.settings.heartbeat / 2 +
           std::max<std::int64_t>(k - 8, 0) * t_.settings.heartbeat / 8;
  }

  peer_table& t_;
  phase phase_ = phase::none;
  std::uint32_t term_ = 0;
  std::uint32_t seen_ = 0;
  std::uint32_t tries_ = 0;
  bool leads_ = false;
  time_point next_try_ = no_deadline;
  std::set<net::peer_id> granted_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP

// ---- causeway/membership/checker.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_CHECKER_HPP
#define CAUSEWAY_MEMBERSHIP_CHECKER_HPP

// Says whether histories of peers can be those of one correct run. It shares no decision with the protocol: it only knows
// what must be true afterwards. Online it takes events as they happen, offline the histories that processes wrote.
//
//   one record for each round; its parent is the record before; voted for by a quorum of the members before, in one ballot
//   no peer's commits, floors or votes go back, also not across restarts; one leader for each term and round
//   no sample in two commits or skipped; every contribution is what its peer trained on, in the ledger's order
//   data only from the current attempt, on top of the own committed state

#include <tuple>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Feed it events in the order in which they happened, those of one peer at least in that peer's order. Cost of an event:
/// O(log) of what was seen; of a round's first commit O(members · log).
class checker {
 public:
  explicit checker(std::uint64_t quota = 0, std::uint64_t budget = 0) : ledger_{quota, budget} {}

  /// What is wrong with this event after all before it, or nothing.
  [[nodiscard]] std::optional<std::string> check(const event& e) {
    const std::optional<std::string> wrong = judge(e);
    if (!wrong) return std::nullopt;
    return *wrong + "\n  at: " + to_line(e);
  }

  /// The histories of all peers, one after the other or merged: clocks of different machines need not agree.
  [[nodiscard]] static std::optional<std::string> check_all(std::span<const event> events, std::uint64_t quota = 0,
                                                            std::uint64_t budget = 0) {
    checker c{quota, budget};
    std::vector<const event*> commits;
    for (const event& e : events) {
      if (e.what == event::accept) c.count_vote(e.round, e.hash, e.at, e.peer);
      if (e.what == event::boot && e.hash != 0) c.count_vote(e.round + 1, e.hash, e.voted, e.peer);
      if (e.what == event::refound) c.refounded_.insert(e.chain);
      if (e.what == event::trained) c.trained_[{e.peer, e.round, e.parent}].push_back(e.ranges);
      if (e.what == event::commit) commits.push_back(&e);
    }
    std::stable_sort(commits.begin(), commits.end(), [](auto* a, auto* b) { return a->round < b->round; });
    for (const event* e : commits) {
      if (auto wrong = c.judge_record(*e)) return *wrong + "\n  at: " + to_line(*e);
    }
    for (const event& e : events) {
      if (auto wrong = c.check(e)) return wrong;
    }
    return std::nullopt;
  }

  /// The histories of a run that was founded on a commit of another (refound), together with those of the other: what the
  /// other did after that commit does not count. `before` may be a branch itself.
  [[nodiscard]] static std::vector<event> branch_of(std::span<const event> before, std::span<const event> branch) {
    std::vector<event> all;
    const auto founding =
        std::find_if(branch.begin(), branch.end(), [](const event& e) { return e.what == event::refound; });
    const std::uint64_t end = founding == branch.end() ? 0 : founding->round;
    for (const event& e : before) {
      const bool of_a_round = e.what == event::lead || e.what == event::accept || e.what == event::commit ||
                              e.what == event::held || e.what == event::trained || e.what == event::update_accepted;
      const bool later = e.what == event::boot ? e.round >= end : of_a_round && e.round >= end;
      if (!later) all.push_back(e);
    }
    all.insert(all.end(), branch.begin(), branch.end());
    return all;
  }

  /// Whether some round was first committed after `from`, and not later than `until`.
  [[nodiscard]] bool progressed(time_point from, time_point until) const {
    return std::any_of(commit_times_.begin(), commit_times_.end(), [&](time_point t) { return from < t && t <= until; });
  }

  [[nodiscard]] std::size_t rounds() const noexcept { return records_.size(); }
  /// After the newest round.
  [[nodiscard]] const ledger& samples() const noexcept { return ledger_; }

 private:
  using verdict = std::optional<std::string>;

  struct record {
    std::uint64_t chain = 0;
    std::uint64_t state = 0;
    std::vector<net::peer_id> members;
  };

  /// What a peer must remember.
  struct memory {
    ballot floor;
    net::peer_id promised_to = 0;
    std::uint64_t round = 0;
    std::uint64_t chain = 0;     ///< 0: knows no commit
    std::uint64_t accepted = 0;  ///< chain of its vote for the round after
    std::map<ballot, std::uint64_t> votes;
  };

  [[nodiscard]] verdict judge(const event& e) {
    memory& m = peers_[e.peer];
    switch (e.what) {
      case event::boot: return judge_boot(e, m);
      case event::promise: return judge_promise(e, m);
      case event::bar: return judge_bar(e, m);
      case event::lead: return judge_lead(e);
      case event::accept: return judge_vote(e, m);
      case event::commit: return judge_commit(e, m);
      case event::held: return judge_held(e, m, records_);
      case event::refound: refounded_.insert(e.chain); return std::nullopt;
      case event::trained: trained_[{e.peer, e.round, e.parent}].push_back(e.ranges); return std::nullopt;
      case event::update_accepted: return judge_update(e, m);
      case event::reject:
      case event::left: return std::nullopt;
    }
    return "an event of no kind";
  }

  /// What was written in the instant of a crash may be new to us, but nothing may be missing.
  verdict judge_boot(const event& e, memory& m) {
    if (e.at < m.floor) return "a promise was forgotten in a restart";
    if (m.chain != 0 && (e.round < m.round || (e.round == m.round && e.chain != m.chain))) {
      return "a commit was forgotten in a restart";
    }
    const bool same_round = m.chain == e.chain;
    const ballot last = m.votes.empty() ? ballot{} : m.votes.rbegin()->first;
    if (same_round && e.hash != m.accepted && (e.hash == 0 || e.voted <= last)) return "a vote was forgotten in a restart";
    m.floor = e.at;
    m.promised_to = e.from;
    m.round = e.round;
    m.chain = e.chain;
    m.accepted = e.hash;
    if (e.hash != 0 && m.votes.try_emplace(e.voted, e.hash).second) count_vote(e.round + 1, e.hash, e.voted, e.peer);
    return std::nullopt;
  }

  static verdict judge_promise(const event& e, memory& m) {
    if (e.at.term < m.floor.term) return "a promise went back";
    if (e.at.term == m.floor.term && e.from != m.promised_to) return "one term was promised to two peers";
    m.floor = std::max(m.floor, e.at);
    m.promised_to = e.from;
    return std::nullopt;
  }

  static verdict judge_bar(const event& e, memory& m) {
    if (e.at < m.floor || e.at.term != m.floor.term) return "a floor went back, or left its term";
    m.floor = e.at;
    return std::nullopt;
  }

  verdict judge_lead(const event& e) {
    const auto [at, fresh] = leaders_.try_emplace({e.at.term, e.round}, e.peer);
    if (!fresh && at->second != e.peer) return "two leaders won one term for one round";
    return std::nullopt;
  }

  verdict judge_vote(const event& e, memory& m) {
    if (e.at < m.floor || e.at.term != m.floor.term) return "a vote below what was promised";
    if (e.round != m.round + 1 || e.parent != m.chain) return "a vote that does not follow the peer's newest commit";
    const auto [at, fresh] = m.votes.try_emplace(e.at, e.hash);
    if (!fresh && at->second != e.hash) return "two votes in one ballot";
    m.floor = e.at;
    m.accepted = e.hash;
    count_vote(e.round, e.hash, e.at, e.peer);
    return std::nullopt;
  }

  void count_vote(std::uint64_t round, std::uint64_t chain, ballot at, net::peer_id peer) {
    votes_[{round, chain}][at].insert(peer);
  }

  verdict judge_commit(const event& e, memory& m) {
    if (m.chain != 0 && e.round < m.round) return "a peer's commits went back";
    if (verdict wrong = judge_record(e)) return wrong;
    if (m.chain == e.chain) return std::nullopt;  // said again after a restart
    m.round = e.round;
    m.chain = e.chain;
    m.accepted = 0;
    return std::nullopt;
  }

  /// What concerns the record, whoever learned it.
  verdict judge_record(const event& e) {
    const auto known = records_.find(e.round);
    if (known != records_.end()) {
      const bool same = known->second.chain == e.chain && known->second.state == e.hash;
      return same ? verdict{} : "two different records of one round";
    }
    if (e.round > 0) {
      const auto before = records_.find(e.round - 1);
      if (before == records_.end()) return "the round before was never committed";
      if (before->second.chain != e.parent) return "the parent is not the record of the round before";
      const bool decided = refounded_.contains(e.chain) || voted_for(e, before->second.members);
      if (!decided) return "committed without a quorum of votes in one ballot";
    }
    if (verdict wrong = judge_samples(e)) return wrong;
    records_[e.round] = {e.chain, e.hash, e.members};
    commit_times_.push_back(e.at_time);
    return std::nullopt;
  }

  bool voted_for(const event& e, const std::vector<net::peer_id>& members) const {
    const auto votes = votes_.find({e.round, e.chain});
    if (votes == votes_.end()) return false;
    return std::any_of(votes->second.begin(), votes->second.end(), [&](const auto& b) {
      return is_quorum(members, {b.second.begin(), b.second.end()});
    });
  }

  verdict judge_samples(const event& e) {
    commit_record r;
    r.members = e.members;
    r.contributions = e.contributions;
    r.returned = e.returned;
    if (e.round == 0) {  // the founding hands nothing out
      return ledger_.hash() == e.ledger ? verdict{} : "the ledger of this commit is another one";
    }
    if (!ledger_.fits(r)) return "somebody contributed more samples than it held";
    for (const contribution& c : e.contributions) {
      const std::vector<std::uint64_t> numbers = ledger_.take(c.peer, 0, c.samples);
      for (const std::uint64_t n : numbers) {
        if (!done_.insert(n)) return "sample " + std::to_string(n) + " is in two commits";
      }
      if (ledger_.quota() > 0 && !trained_on(e, c.peer, numbers)) {
        return "peer " + std::to_string(c.peer) + " contributed other samples than it trained on";
      }
    }
    ledger_.apply(r);
    if (ledger_.hash() != e.ledger) return "the ledger of this commit is another one";
    if (ledger_.quota() > 0 && done_.count != ledger_.done()) return "samples were skipped";
    return std::nullopt;
  }

  /// Only asked of peers whose driver says what it trained on.
  bool trained_on(const event& e, net::peer_id peer, const std::vector<std::uint64_t>& numbers) const {
    const auto said = trained_.find({peer, e.round, e.parent});
    if (said == trained_.end()) {
      const auto any = trained_.lower_bound({peer, 0, 0});
      return any == trained_.end() || std::get<0>(any->first) != peer;
    }
    return std::any_of(said->second.begin(), said->second.end(), [&](const std::vector<sample_range>& ranges) {
      std::vector<std::uint64_t> all;
      for (const sample_range& r : ranges) {
        for (std::uint64_t i = 0; i < r.count; ++i) all.push_back(r.first + i);
      }
      return all == numbers;
    });
  }

  static verdict judge_held(const event& e, const memory& m, const std::map<std::uint64_t, record>& records) {
    const auto known = records.find(e.round);
    if (e.round > m.round || known == records.end()) return "a state was held of a round that was not committed";
    if (known->second.state != e.hash) return "a state was held that is not the committed one";
    return std::nullopt;
  }

  static verdict judge_update(const event& e, const memory& m) {
    if (e.at < m.floor || e.at.term != m.floor.term) return "data of another attempt was let in";
    if (e.parent != m.chain || e.round != m.round + 1) return "data with another parent was let in";
    return std::nullopt;
  }

  /// Numbers as joined ranges.
  struct number_set {
    std::map<std::uint64_t, std::uint64_t> ranges;  ///< first, end
    std::uint64_t count = 0;

    bool insert(std::uint64_t n) {
      auto after = ranges.upper_bound(n);
      if (after != ranges.begin()) {
        auto before = std::prev(after);
        if (before->second > n) return false;
        if (before->second == n) {
          ++before->second;
          if (after != ranges.end() && after->first == n + 1) {
            before->second = after->second;
            ranges.erase(after);
          }
          return ++count, true;
        }
      }
      if (after != ranges.end() && after->first == n + 1) {
        const std::uint64_t end = after->second;
        ranges.erase(after);
        ranges[n] = end;
      } else {
        ranges[n] = n + 1;
      }
      return ++count, true;
    }
  };

  ledger ledger_;
  number_set done_;
  std::map<std::uint64_t, record> records_;
  std::map<net::peer_id, memory> peers_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<ballot, std::set<net::peer_id>>> votes_;  ///< round, chain
  std::set<std::uint64_t> refounded_;                                                                  ///< chains
  std::map<std::pair<std::uint32_t, std::uint64_t>, net::peer_id> leaders_;                            ///< term, round
  std::map<std::tuple<net::peer_id, std::uint64_t, std::uint64_t>, std::vector<std::vector<sample_range>>> trained_;
  std::vector<time_point> commit_times_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_CHECKER_HPP

// ---- causeway/membership/decision.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_DECISION_HPP
#define CAUSEWAY_MEMBERSHIP_DECISION_HPP

// What a leader may propose, given what the members reported: the heart of the protocol's safety, kept apart and pure.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// What one member said of its vote for the round in question, after it was barred from all ballots below the next one.
struct statement {
  net::peer_id peer = 0;
  const acceptance* accepted = nullptr;  ///< nullptr: none
};

/// What may be proposed next.
struct proposal_rule {
  enum kind {
    wait,  ///< too few statements, or more than one value may have been chosen: more members have to be heard
    free,  ///< no value was or can be chosen in an earlier ballot: anything may be proposed
    bound  ///< `value` may have been chosen: nothing else may be proposed
  };
  kind is = wait;
  const commit_record* value = nullptr;  ///< bound: the value. free: a value somebody voted for, which may be proposed too
};

/// The rule of Paxos, phase 2a, for `members`. A ballot has one value, unless replicas that must be equal were not: then
/// the members voted for different hashes in it. Only a value that a quorum may have voted for, heard or not, binds. Cost:
/// O(n log n).
[[nodiscard]] inline proposal_rule what_may_be_proposed(std::span<const net::peer_id> members,
                                                        std::span<const statement> statements) {
  std::vector<net::peer_id> heard;
  ballot highest;
  bool any = false;
  for (const statement& s : statements) {
    heard.push_back(s.peer);
    if (s.accepted == nullptr) continue;
    highest = any ? std::max(highest, s.accepted->at) : s.accepted->at;
    any = true;
  }
  if (!is_quorum(members, heard)) return {};
  if (!any) return {proposal_rule::free, nullptr};

  // Candidates are the values of the highest ballot: had another been chosen below it, they would be that one. A member
  // that voted for one of them in a lower ballot counts as well: its vote may have been what got the value chosen.
  std::map<std::uint64_t, std::pair<const commit_record*, std::vector<net::peer_id>>> values;  // by chain
  for (const statement& s : statements) {
    if (s.accepted != nullptr && s.accepted->at == highest) values[s.accepted->value.chain()].first = &s.accepted->value;
  }
  for (const statement& s : statements) {
    if (s.accepted == nullptr) continue;
    const auto at = values.find(s.accepted->value.chain());
    if (at != values.end()) at->second.second.push_back(s.peer);
  }
  std::vector<net::peer_id> silent;
  std::sort(heard.begin(), heard.end());
  for (const net::peer_id id : members) {
    if (!std::binary_search(heard.begin(), heard.end(), id)) silent.push_back(id);
  }
  proposal_rule rule{proposal_rule::free, nullptr};
  std::size_t most = 0;
  for (auto& [chain, entry] : values) {
    auto& [value, voters] = entry;
    const std::size_t count = voters.size();
    voters.insert(voters.end(), silent.begin(), silent.end());
    if (is_quorum(members, voters)) {
      if (rule.is == proposal_rule::bound) return {};
      rule = {proposal_rule::bound, value};
    } else if (rule.is == proposal_rule::free && count > most) {
      rule.value = value;
      most = count;
    }
  }
  return rule;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_DECISION_HPP

// ---- causeway/membership/evidence.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_EVIDENCE_HPP
#define CAUSEWAY_MEMBERSHIP_EVIDENCE_HPP

// When a commit that somebody tells is believed. A peer that knows a view counts the word of its members only, its own vote
// included: two of them are enough, or one that is a quorum alone. Where nobody else answers, one word is enough after a
// while, unless those who do answer rule the commit out. A newcomer, who knows no view, wants two words as well where it
// was sent to several. docs/design/membership.md says what this holds against.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// A commit that others told of.
struct told_commit {
  commit_record record;
  std::optional<ledger> samples;  ///< after it; none: it follows the newest known
  certificate votes;
  std::vector<located_peer> holders;
  std::uint64_t chain = 0;
  std::set<net::peer_id> tellers;
  time_point since{};  ///< nobody has ruled out what its teller says since then
  position told_in{};  ///< the newest commit known when it was told last
};

/// Keeps what is not believed yet, and asks other members for their word. Cost of an event: O(members) while something is.
class evidence {
 public:
  explicit evidence(peer_table& t) : t_{t}, start_{static_cast<std::size_t>(mix(t.self, 0x61736bU))} {}

  /// `from` tells a commit. Strangers are counted and not heard.
  void told(net::peer_id from, const commit_record& record, const certificate& votes, const ledger* samples,
            std::vector<located_peer> holders) {
    const position& newest = t_.votes.newest();
    if (record.run != t_.settings.run || record.members.empty()) return t_.reject(reject_reason::malformed, from);
    if (newest.known() && record.round < newest.round) return;
    if (newest.known() && !t_.acquainted(from)) return t_.reject(reject_reason::not_a_member, from);
    if (samples == nullptr && (!newest.known() || record.round > newest.round + 1)) return;  // those between are missing
    const std::uint64_t chain = record.chain();
    if (newest.known() && chain == newest.chain) return;
    if (newest.known() && record.round - newest.round > max_rounds_missed)
      return t_.reject(reject_reason::wrong_round, from);
    if (newest.known() && !in_time(record)) return t_.reject(reject_reason::wrong_round, from);
    const bool next = newest.known() && record.parent == newest.chain;
    if (next && !is_quorum(t_.members(), voters_of(votes))) return t_.reject(reject_reason::wrong_parent, from);
    t_.entry(from).word = {record.round, chain};
    told_commit& c = entry(from, chain, record, votes);
    if (samples != nullptr) c.samples = *samples;
    if (!holders.empty() || c.holders.empty()) c.holders = std::move(holders);
    changed_ = true;
  }

  /// `from` names the newest commit that it knows, in whatever message: that is its word for it.
  void heard(net::peer_id from, const position& newest) {
    position& word = t_.entry(from).word;
    if (std::exchange(word, newest) != newest) changed_ = true;
  }
  /// It answers an inquiry.
  void heard(net::peer_id from, const confirmation& m) {
    t_.entry(from).answer = m;
    t_.entry(from).answered = true;
    changed_ = true;
  }

  void peer_up(net::peer_id id) {
    if (told_.empty()) return;
    if (t_.votes.is_member(id) || !t_.votes.newest().known()) t_.post(id, question());
  }

  /// A commit that may be taken for a fact now; each is given once. More words are asked for where there is none.
  std::optional<told_commit> believed() {
    forget_the_past();
    if (told_.empty() || (!changed_ && t_.now < next_)) return std::nullopt;
    changed_ = false;
    for (auto c = told_.begin(); c != told_.end(); ++c) {
      if (!convinced(*c)) continue;
      told_commit found = std::move(*c);
      told_.erase(c);
      changed_ = true;
      doubts_ = !told_.empty();
      return found;
    }
    if (t_.now >= next_) ask();
    return std::nullopt;
  }

  [[nodiscard]] time_point next_wake() const noexcept { return told_.empty() ? no_deadline : next_; }
  /// What is told and not believed; empty where there is nothing.
  [[nodiscard]] std::string doubt() const {
    if (told_.empty()) return {};
    return "peer " + std::to_string(*told_.front().tellers.begin()) + " tells of round " +
           std::to_string(told_.front().record.round) +
           "; waits for the word of another member of the last round known here";
  }

 private:
  static constexpr std::size_t most_told = 4;

  /// Every round takes a ballot, and they grow: so many lie between. Who takes part in a round has promised its term, so a
  /// later round has no quorum in an earlier one.
  [[nodiscard]] bool in_time(const commit_record& record) const {
    const commit_record& newest = *t_.votes.durable().newest;
    const std::uint64_t before = newest.at.wire();
    return record.round == newest.round || record.at.wire() >= before + (record.round - newest.round);
  }

  told_commit& entry(net::peer_id from, std::uint64_t chain, const commit_record& record, const certificate& votes) {
    told_commit fresh{record, std::nullopt, votes, {}, chain, {from}, t_.now, t_.votes.newest()};
    for (told_commit& c : told_) {
      if (c.tellers.erase(from) > 0) fresh.since = c.since;  // of one teller alone each round would begin the wait anew
    }
    const auto same = std::find_if(told_.begin(), told_.end(), [&](const told_commit& c) { return c.chain == chain; });
    if (same != told_.end()) {
      same->tellers.insert(from);
      same->told_in = t_.votes.newest();
      forget_untold();
      return *std::find_if(told_.begin(), told_.end(), [&](const told_commit& c) { return c.chain == chain; });
    }
    forget_untold();
    if (told_.size() == most_told) told_.erase(told_.begin());
    if (doubts_) return told_.push_back(fresh), told_.back();
    doubts_ = true;
    next_ = t_.now;
    asked_ = false;
    return told_.push_back(fresh), told_.back();
  }

  void forget_untold() {
    std::erase_if(told_, [](const told_commit& c) { return c.tellers.empty(); });
  }

  /// Once a later commit is known, doubts about earlier ones are over, and those about later ones begin anew.
  void forget_the_past() {
    const position& newest = t_.votes.newest();
    if (newest == base_) return;
    base_ = newest;
    std::erase_if(told_, [&](const told_commit& c) { return c.record.round < newest.round || c.chain == newest.chain; });
    for (told_commit& c : told_) c.since = t_.now;
    for (auto& [id, p] : t_.peers) p.word = {}, p.answer = {};
    next_ = t_.now;
    doubts_ = !told_.empty();
    changed_ = true;
  }

  [[nodiscard]] bool convinced(told_commit& c) {
    if (!t_.votes.newest().known()) return from_a_root(c);
    std::vector<net::peer_id> words = voices(c);
    if (words.size() >= 2 || is_quorum(t_.members(), words)) return true;
    const net::peer_id teller = *c.tellers.begin();
    if (somebody_here(teller)) alone_with_ = 0;
    const bool stands = possible(c) && !all_took_back(c);
    if (!stands) c.since = t_.now;  // who lies waits for as long after those who know better are gone
    const bool waited = t_.now - c.since >= patience() || teller == alone_with_;
    if (!stands || !waited || !follows(c) || !said_in_this_view(c) || disputed(c)) return false;
    if (words.empty() && somebody_here(0)) return false;
    if (std::exchange(alone_with_, teller) == teller) return true;
    t_.out->log(severity::warning, "round " + std::to_string(c.record.round) + " is believed on the word of peer " +
                                       std::to_string(teller) +
                                       " alone: no other member of the last round known here answers");
    return true;
  }

  /// A newcomer believes whom it was sent to, and only if nobody answers at that address under that name, anybody. Where it
  /// was sent to more than one, two have to say the same; or one says it, those who answer know of no other commit, and
  /// who might has had the time to come up.
  [[nodiscard]] bool from_a_root(const told_commit& c) const {
    if (!c.samples || all_took_back(c)) return false;
    const std::vector<net::peer_id> words = newcomers_voices(c);
    const bool sent = std::any_of(words.begin(), words.end(), [&](auto id) { return t_.acquainted(id); });
    const duration waited = t_.now - c.since;
    const bool due = sent || waited >= 2 * t_.settings.heartbeat;
    if (words.size() >= 2 || t_.other_seeds().size() <= 1) return due;
    const bool denied = std::any_of(t_.peers.begin(), t_.peers.end(), [&](const auto& at) {
      const peer_entry& p = at.second;
      return p.up && (p.word.known() || p.answer.newest.known()) && !contains(words, at.first);
    });
    if (denied) return false;
    if (t_.all_seeds_answered()) return due;
    const bool founding = c.votes.empty() && c.record.members.size() == 1;  // nobody else can have heard of it
    return waited >= (founding ? 2 * t_.settings.heartbeat : patience());
  }

  /// Who says that it is committed, as far as somebody can tell who knows no members.
  [[nodiscard]] std::vector<net::peer_id> newcomers_voices(const told_commit& c) const {
    std::vector<net::peer_id> ids;
    for (const auto& [id, p] : t_.peers) {
      if (id != t_.self && ((c.tellers.contains(id) && !took_back(id, c)) || supports(p, c))) ids.push_back(id);
    }
    return ids;
  }

  [[nodiscard]] static bool supports(const peer_entry& p, const told_commit& c) {
    return p.up && (p.word.chain == c.chain || p.answer.supports(c.chain));
  }

  /// It told of this, and names an earlier commit since.
  [[nodiscard]] bool took_back(net::peer_id id, const told_commit& c) const {
    const peer_entry* p = t_.find(id);
    return p != nullptr && p->up && p->word.known() && p->word.round < c.record.round;
  }
  [[nodiscard]] bool all_took_back(const told_commit& c) const {
    return std::all_of(c.tellers.begin(), c.tellers.end(), [&](auto id) { return took_back(id, c); });
  }

  /// Whether another member that is here tells something else. Who is right shows once two say the same.
  [[nodiscard]] bool disputed(const told_commit& c) const {
    return std::any_of(told_.begin(), told_.end(), [&](const told_commit& other) {
      return other.chain != c.chain && std::any_of(other.tellers.begin(), other.tellers.end(), [&](auto id) {
               return t_.believed(id) && t_.up(id) && !took_back(id, other);
             });
    });
  }

  /// A word counts among the members among whom it was given: of five, two may be left afterwards, and one of them be a
  /// quorum alone. Who told before is asked again.
  [[nodiscard]] bool said_in_this_view(const told_commit& c) const {
    if (c.told_in == t_.votes.newest()) return true;
    return std::any_of(c.tellers.begin(), c.tellers.end(), [&](auto id) {
      const peer_entry* p = t_.find(id);
      return p != nullptr && supports(*p, c);
    });
  }

  /// Whose word counts and is for it; our own vote is a word.
  [[nodiscard]] std::vector<net::peer_id> voices(const told_commit& c) const {
    const bool told_now = c.told_in == t_.votes.newest();
    std::vector<net::peer_id> ids;
    for (const auto& [id, p] : t_.peers) {
      if (id == t_.self || !t_.believed(id)) continue;
      const bool told = told_now && c.tellers.contains(id) && !took_back(id, c);
      if (told || supports(p, c)) ids.push_back(id);
    }
    if (t_.votes.accepted_chain() == c.chain) ids.push_back(t_.self);
    return ids;
  }

  /// Whether those who do not say that they are without a vote for it could have been a quorum.
  [[nodiscard]] bool possible(const told_commit& c) const {
    std::vector<net::peer_id> perhaps;
    for (const net::peer_id id : t_.members()) {
      const peer_entry* p = t_.find(id);
      confirmation w = p != nullptr && p->up ? p->answer : confirmation{};
      if (id == t_.self) w = answer();
      const bool older = w.newest.known() && w.newest.round < c.record.round;
      const bool voter = w.voted != 0 && (w.voted == c.chain || c.record.round > w.newest.round + 1);
      if (!older || voter || (c.tellers.contains(id) && !took_back(id, c)))
        perhaps.push_back(id);  // a teller's answer may be old
    }
    return is_quorum(t_.members(), perhaps);
  }

  /// Whether it could come after what is known. Only more than one word can show that two histories exist.
  [[nodiscard]] bool follows(const told_commit& c) const {
    const position& newest = t_.votes.newest();
    if (c.record.round > newest.round + 1) return c.samples.has_value();
    return c.record.round == newest.round + 1 && t_.votes.follows(c.record);
  }

  [[nodiscard]] bool somebody_here(net::peer_id but) const {
    const auto here = [&](net::peer_id id, const peer_entry& p) { return p.up && id != t_.self && id != but; };
    return !t_.members_that(here).empty();
  }

  /// Longer than what cuts somebody off for a while: a machine that starts again, a line that is down.
  [[nodiscard]] duration patience() const { return 6 * t_.settings.silence.cap; }

  [[nodiscard]] inquiry question() const {
    const told_commit& c = told_.back();
    return {{c.record.round, c.chain}};
  }

  /// Two who are within reach, the same ones each time; then, where that was not enough, everybody in turn.
  void ask() {
    next_ = t_.now + t_.settings.heartbeat;
    const auto& c = t_.members();
    if (c.empty()) return ask_anybody();
    const bool again = std::exchange(asked_, true);
    if (!said_in_this_view(told_.back())) {
      for (const net::peer_id id : told_.back().tellers) t_.post(id, question());
    }
    std::size_t many = again ? std::max<std::size_t>(4, c.size() / 16) : 2;
    for (std::size_t i = 0; i < c.size() && many > 0; ++i) {
      const net::peer_id id = c[(again ? turn_++ : start_ + i) % c.size()];
      if (id == t_.self || !t_.up(id) || told_.back().tellers.contains(id)) continue;
      t_.post(id, question());
      --many;
    }
    for (std::size_t i = 0; i < c.size() && many > 0; ++i) {
      const net::peer_id id = c[dialled_++ % c.size()];
      const std::string address = t_.address_of(id);
      if (id == t_.self || t_.up(id) || address.empty()) continue;
      t_.out->dial(address);
      --many;
    }
    if (many == 0) return;
    for (const net::peer_id id : told_.back().tellers) t_.post(id, address_request{});
  }

  /// A newcomer does not know whom to ask.
  void ask_anybody() {
    std::vector<net::peer_id> others;
    for (const auto& [id, p] : t_.peers) {
      if (p.up && id != t_.self && !told_.back().tellers.contains(id)) others.push_back(id);
    }
    for (std::size_t i = 0; i < std::min(asked_by_newcomers, others.size()); ++i) {
      t_.post(others[turn_++ % others.size()], question());
    }
  }
  static constexpr std::size_t asked_by_newcomers = 8;

 public:
  /// What this peer says when it is asked.
  [[nodiscard]] confirmation answer() const {
    const auto& newest = t_.votes.durable().newest;
    return {t_.votes.newest(), newest ? newest->parent : 0, t_.votes.accepted_chain()};
  }

  /// To somebody who asks, now and again once more is known.
  void reply(net::peer_id to, const inquiry& m) {
    t_.entry(to).asks = t_.votes.newest().older_than(m.about);
    t_.post(to, answer());
  }
  void tell_who_asked() {
    for (auto& [id, p] : t_.peers) {
      if (std::exchange(p.asks, false)) t_.post(id, answer());
    }
  }

 private:
  peer_table& t_;
  std::vector<told_commit> told_;
  position base_;
  bool changed_ = false;
  bool doubts_ = false;  ///< something is told and not believed
  bool asked_ = false;
  net::peer_id alone_with_ = 0;  ///< whose word was enough for want of others
  time_point next_;
  std::size_t start_;
  std::size_t turn_ = 0;
  std::size_t dialled_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_EVIDENCE_HPP

// ---- causeway/membership/follower.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_FOLLOWER_HPP
#define CAUSEWAY_MEMBERSHIP_FOLLOWER_HPP

// What every peer does, the leader included: it follows one leader, offers its trainer's work, takes part, votes, and
// learns commits. It decides nothing for others.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

class follower {
 public:
  explicit follower(peer_table& t) : t_{t} {}

  // ---- what the trainer says -------------------------------------------------------------------------------------------

  void holds(std::uint64_t round, std::uint64_t state) {
    const std::pair now_held{round, state};
    // Gone back from what it voted for: a commit of that finds it without the state.
    const auto& accepted = t_.votes.durable().accepted;
    if (accepted && accepted->value.state != state) voted_chain_ = 0;
    if (held_ == now_held) return;
    held_ = now_held;
    say();
  }

  void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
    if (round != newest().round + 1 || parent != newest().chain || !holds_newest() || waits_for_commit()) {
      return;  // the round is over, or this peer has voted in it: the situation says so
    }
    ready_ = true;
    samples_ = samples;
    say();
  }

  /// The trainer has the result of the exchange at `at`, and its own part in it is used up: until it has voted or failed,
  /// whatever would end the attempt has to wait. False: it is over already.
  bool completed(ballot at) {
    if (!current_ || current_->who.at != at || at < floor()) return false;
    completing_ = true;
    return true;
  }

  /// Whether this message would end an attempt whose vote is on its way.
  template <class Message>
  [[nodiscard]] bool must_wait(const Message& m) const {
    if (!completing_) return false;
    if constexpr (std::is_same_v<Message, heartbeat> || std::is_same_v<Message, campaign>) {
      return m.term > floor().term;
    } else {
      return std::is_same_v<Message, go> || std::is_same_v<Message, adoption> || std::is_same_v<Message, abort_attempt>;
    }
  }

  void voted(ballot at, std::uint64_t round, std::uint64_t state) {
    completing_ = false;
    if (adopting_ && adopting_->at == at && round == adopting_->value.round) {
      if (state != adopting_->value.state) return failed(at, errc::diverged, {t_.self});
      if (vote_for(at, adopting_->value, true)) adopting_.reset();
    } else if (current_ && current_->who.at == at && round == current_->who.round) {
      commit_record value = current_->proposal;
      value.state = state;
      vote_for(at, value, true);
    }
  }

  void failed(ballot at, errc why, const std::vector<net::peer_id>& suspects) {
    completing_ = false;
    const bool exchange = current_ && current_->who.at == at && !has_voted(at);
    const bool fetch = adopting_ && adopting_->at == at;
    if (exchange || fetch) return refuse(at, why, suspects);
    // Somebody else ended it first. Whose fault it was, this peer may have seen all the same.
    if (at == ended_ && !suspects.empty()) t_.post(t_.votes.durable().promised_to, failure{at, why, suspects});
  }

  void unusable(ballot at) {
    completing_ = false;
    if (current_ && current_->who.at == at && !has_voted(at)) return refuse(at, errc::non_finite, {t_.self});
    t_.post(t_.votes.durable().promised_to, failure{at, errc::non_finite, {t_.self}});
  }

  void leave() {
    leaving_ = true;
    say();
  }

  // ---- what others say -----------------------------------------------------------------------------------------------

  void on(net::peer_id from, const heartbeat& m) {
    tell_newer(from, m.newest);
    if (!t_.may_lead(from)) {  // one that knows no view yet is told of it first
      t_.reject(reject_reason::not_a_member, from);
      return t_.post(from, make_report());
    }
    if (m.term > floor().term) {
      if (leader_ != from && leader_is_well()) return refuse_term(from, reject_reason::wrong_leader);
      if (!t_.allow_term(m.term, from)) return;
    }
    if (!t_.votes.promise(m.term, from, t_.now)) {
      return refuse_term(from, m.term < floor().term ? reject_reason::stale_ballot : reject_reason::wrong_leader);
    }
    follow(from);
    peer_entry& p = t_.entry(from);
    if (p.last_beat != 0 && m.number == p.last_beat + 1) p.beats.observe(t_.now - beat_at_);
    p.last_beat = m.number;
    beat_at_ = t_.now;
    beat_ = m;
    t_.post(from, make_report(m.number));
  }

  void on(net::peer_id from, const campaign& m) {
    tell_newer(from, m.newest);
    if (!t_.may_lead(from)) {
      t_.reject(reject_reason::not_a_member, from);
      return t_.post(from, make_guide());
    }
    if (leader_ != from && leader_is_well()) return t_.post(from, make_guide());
    if (m.trial) {
      report r = make_report();
      r.trial_term = m.term > floor().term ? m.term : 0;
      return t_.post(from, r);
    }
    if (m.term > floor().term && !t_.allow_term(m.term, from)) return;
    if (t_.votes.promise(m.term, from, t_.now) && leader_ != from) lose_leader();
    t_.post(from, make_report());
  }

  void on(net::peer_id from, const go& m) {
    const ballot at = m.who.at;
    if (!authority(from, at)) return;
    if ((current_ && current_->who.at == at) || has_voted(at)) return;  // a duplicate
    const std::optional<reject_reason> wrong = check(m);
    if (wrong) {
      t_.reject(*wrong, from);
      return refuse(at, errc::wrong_parent, {t_.self});
    }
    go whole = m;
    if (from != t_.self && !fill_in(whole)) {  // some addresses are not known here
      unplaced_ = m;
      return t_.post(from, address_request{});
    }
    enter(std::move(whole));
  }

  void on(net::peer_id from, const address_list& m) {
    if (!t_.acquainted(from)) return t_.reject(reject_reason::not_a_member, from);
    for (const located_peer& p : m.places) {
      if (p.peer == t_.self) seen_at_ = p.address;
    }
    t_.remember(m.places);
    std::optional<go> waiting = std::exchange(unplaced_, std::nullopt);
    if (!waiting || !authority(from, waiting->who.at) || check(*waiting)) return;
    (void)fill_in(*waiting);  // who still has no address cannot be dialled, and the attempt says so
    enter(std::move(*waiting));
  }

  void on(net::peer_id from, const abort_attempt& m) {
    if (m.floor.term != floor().term || from != t_.votes.durable().promised_to) {
      return t_.reject(reject_reason::wrong_leader, from);
    }
    if (t_.votes.bar(m.floor, t_.now)) t_.post(from, make_report());
  }

  void on(net::peer_id from, const adoption& m) {
    if (!authority(from, m.at) || (adopting_ && adopting_->at == m.at) || has_voted(m.at)) return;
    if (m.value.round <= newest().round) return t_.post(from, catch_up());
    if (m.partial || !t_.votes.follows(m.value)) {
      t_.reject(reject_reason::wrong_parent, from);
      return refuse(m.at, errc::wrong_parent, {t_.self});
    }
    if (t_.votes.durable().accepted && t_.votes.durable().accepted->value == m.value) {
      vote_for(m.at, m.value, false);  // what we voted for is on our disk already
      return;
    }
    current_.reset();
    adopting_ = m;
  }

  void on(net::peer_id from, const holder_list& m) {
    if (m.of == newest() && t_.acquainted(from)) holders_ = m.holders;
  }

  void on(net::peer_id from, const exclusion& m) {
    if (from == leader_) excluded_ = m.why;
  }

  void on(net::peer_id from, const farewell& m) {
    if (m.you && t_.believed(from)) left_ = left_ || leaving_;
    if (!m.you && from == leader_) lose_leader();
  }

  /// A new run: round 0 is committed by founding it. Samples are handed out by the first round that peers make together, so
  /// that the others need not wait for what the founder has begun alone.
  void found(std::uint64_t state) {
    commit_record first;
    first.run = t_.settings.run;
    first.state = state;
    first.members = {t_.self};
    const ledger samples{t_.settings.quota, t_.settings.budget};
    first.ledger = samples.hash();
    if (!t_.votes.learn(first, samples, t_.now)) return;
    held_ = {0, state};
  }

  // ---- leader ----------------------------------------------------------------------------------------------------------

  void follow(net::peer_id id) {
    if (leader_ == id) return;
    leader_ = id;
    beat_ = {};
    beat_at_ = t_.now;
    t_.entry(id).last_beat = 0;
    excluded_.clear();
    if (id != t_.self) t_.out->log(severity::info, "following peer " + std::to_string(id));
    say();
  }

  void lose_leader() {
    if (leader_ == 0) return;
    lost_ = std::exchange(leader_, 0);
    leaderless_since_ = t_.now;
  }

  /// In a public function of the protocol, at its end: tells the leader what changed, drops what a promise ended.
  void settle() {
    if (end_attempt()) say();
    if (unplaced_ && unplaced_->who.at < floor()) unplaced_.reset();
    if (adopting_ && adopting_->at < floor()) adopting_.reset();
    if (!std::exchange(report_due_, false) || leader_ == 0) return;
    t_.post(leader_, make_report());
  }

  void say() { report_due_ = true; }

  /// Gives up a leader that has been silent for too long. True: it did.
  bool check_silence() {
    if (leader_ == 0 || leader_ == t_.self || t_.now - beat_at_ <= patience()) return false;
    t_.out->drop(leader_, "the leader was silent for " + std::to_string(seconds(t_.now - beat_at_)) + " s");
    t_.entry(leader_).up = false;
    lose_leader();
    return true;
  }
  void forgive() { beat_at_ = t_.now; }

  /// A commit is believed. True: it is new.
  bool learn(const told_commit& c) {
    const bool was_known = newest().known();
    const bool learned_it =
        c.samples ? t_.votes.learn(c.record, *c.samples, t_.now, c.votes) : t_.votes.learn(c.record, t_.now, c.votes);
    if (!learned_it) return false;
    if (!was_known) {
      t_.roots.insert(c.tellers.begin(), c.tellers.end());
      t_.out->log(severity::info, "joining the run at round " + std::to_string(newest().round) + " of " +
                                      std::to_string(c.record.members.size()) + " members, as peer " +
                                      std::to_string(*c.tellers.begin()) + " tells");
    }
    learned(c.holders);
    return true;
  }

  /// Whoever knows less is told what we know, for each connection and commit once, and now and again while it does not
  /// believe it.
  void tell_newer(net::peer_id to, const position& known, std::vector<located_peer> holders = {}) {
    if (!known.older_than(newest())) return;
    peer_entry& p = t_.entry(to);
    if (p.rounds_told > newest().round && t_.now - p.told_at < 8 * t_.settings.heartbeat) return;
    p.rounds_told = newest().round + 1;
    p.told_at = t_.now;
    sync all = catch_up();
    if (!holders.empty()) all.holders = std::move(holders);
    t_.post(to, all);
  }

  [[nodiscard]] guide make_guide() const {
    guide g{floor().term, {leader_, t_.address_of(leader_)}, t_.some_peers(16)};
    if (leader_ == t_.self) g.leader.address = t_.settings.address;
    return g;
  }

  [[nodiscard]] report make_report(std::uint32_t beat = 0) {
    (void)end_attempt();
    const durable_record& d = t_.votes.durable();
    report r;
    r.sequence = ++sequence_;
    r.floor = d.floor;
    r.promised_to = d.promised_to;
    r.newest = newest();
    r.accepted = d.accepted;
    r.holds = holds_newest();
    r.ready = ready_;
    r.leaving = leaving_;
    r.samples = samples_;
    r.beat = beat;
    r.address = t_.settings.address;
    return r;
  }

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] net::peer_id leader() const noexcept { return leader_; }
  [[nodiscard]] net::peer_id lost_leader() const noexcept { return lost_; }
  [[nodiscard]] time_point leaderless_since() const noexcept { return leaderless_since_; }
  [[nodiscard]] bool has_left() const noexcept { return left_; }
  [[nodiscard]] bool leaving() const noexcept { return leaving_; }
  [[nodiscard]] bool is_ready() const noexcept { return ready_; }
  [[nodiscard]] const std::string& excluded() const noexcept { return excluded_; }
  [[nodiscard]] const heartbeat& last_beat() const noexcept { return beat_; }
  [[nodiscard]] const std::optional<go>& current() const noexcept { return current_; }
  [[nodiscard]] const std::optional<adoption>& adopting() const noexcept { return adopting_; }
  [[nodiscard]] const std::vector<located_peer>& holders() const noexcept { return holders_; }
  [[nodiscard]] bool holds_newest() const {
    const auto& d = t_.votes.durable();
    return d.newest && held_ && held_->first == d.newest->round && held_->second == d.newest->state;
  }
  /// Voted in this process for the round after the newest commit, and waits for what becomes of it. Who is no member
  /// decides nothing: once a later ballot has begun, it begins anew as well.
  [[nodiscard]] bool waits_for_commit() const {
    if (voted_chain_ == 0 || voted_chain_ != t_.votes.accepted_chain()) return false;
    return t_.votes.is_member(t_.self) || t_.votes.durable().accepted->at >= floor();
  }
  /// All that we know, and that we hold it: the leader, who knows more holders, may be gone.
  [[nodiscard]] sync catch_up() const {
    sync all{*t_.votes.durable().newest, t_.votes.durable().votes, t_.votes.durable().samples, {}};
    if (holds_newest()) all.holders.push_back({t_.self, t_.settings.address});
    return all;
  }

 private:
  [[nodiscard]] const position& newest() const { return t_.votes.newest(); }
  [[nodiscard]] const ballot& floor() const { return t_.votes.durable().floor; }
  [[nodiscard]] duration patience() const {
    const peer_entry* p = t_.find(leader_);
    return p == nullptr ? t_.settings.silence.cap : p->beats.patience();
  }

  [[nodiscard]] bool has_voted(ballot at) const {
    const auto& accepted = t_.votes.durable().accepted;
    return accepted && accepted->at == at;
  }

  /// A leader that reaches a quorum and was heard of lately is not deposed for one that somebody else cannot reach.
  [[nodiscard]] bool leader_is_well() const {
    if (leader_ == 0) return false;
    if (leader_ == t_.self) return t_.quorum_follows();
    return t_.up(leader_) && beat_.quorum && t_.now - beat_at_ <= patience();
  }

  /// Whether `from` may make proposals at `at`. If not, it is told where we stand.
  bool authority(net::peer_id from, ballot at) {
    const bool term = at.term == floor().term && from == t_.votes.durable().promised_to;
    if (term && at >= floor()) return true;
    t_.reject(term || at.term < floor().term ? reject_reason::stale_ballot : reject_reason::wrong_leader, from);
    t_.post(from, make_report());
    return false;
  }

  /// Whoever sent it is told where we stand.
  void refuse_term(net::peer_id from, reject_reason why) {
    t_.reject(why, from);
    t_.post(from, make_report());
  }

  [[nodiscard]] std::optional<reject_reason> check(const go& m) const {
    const commit_record& value = m.proposal;
    if (m.who.round != newest().round + 1) return reject_reason::wrong_round;
    if (m.partial) return reject_reason::wrong_parent;
    if (m.who.parent != newest().chain) return reject_reason::wrong_parent;
    if (value.round != m.who.round || value.at != m.who.at || !t_.votes.follows(value)) return reject_reason::wrong_ledger;
    if (!adds_up(m)) return reject_reason::wrong_ledger;
    const auto rank = m.who.rank_of(t_.self);
    if (!ready_ || !rank || m.who.members[*rank].samples != samples_) return reject_reason::not_ready;
    return std::nullopt;
  }

  void enter(go m) {
    adopting_.reset();
    current_ = std::move(m);
    meet(current_->who);
  }

  /// Addresses of the view: the news, and what is known here. False: not the same that the leader has.
  [[nodiscard]] bool fill_in(go& m) {
    for (const located_peer& p : m.news) {
      if (p.peer == t_.self) seen_at_ = p.address;
    }
    t_.remember(m.news);
    const std::string here = seen_at_.empty() ? t_.settings.address : seen_at_;
    for (view_member& v : m.who.members) v.address = v.peer == t_.self ? here : t_.remembered_address(v.peer);
    return places_of(m.who) == m.places;
  }

  /// Weights are what the record counts, and only who takes part can be a member afterwards.
  [[nodiscard]] static bool adds_up(const go& m) {
    std::vector<contribution> weights;
    std::vector<net::peer_id> who;
    for (const view_member& v : m.who.members) {
      if (v.samples > 0) weights.push_back({v.peer, v.samples});
      who.push_back(v.peer);
    }
    std::sort(who.begin(), who.end());
    const auto takes_part = [&](net::peer_id id) { return std::binary_search(who.begin(), who.end(), id); };
    return weights == m.proposal.contributions && std::adjacent_find(who.begin(), who.end()) == who.end() &&
           std::all_of(m.proposal.members.begin(), m.proposal.members.end(), takes_part);
  }

  /// `fresh`: on the trainer's word, who has the state at hand and nothing left to exchange.
  bool vote_for(ballot at, const commit_record& value, bool fresh) {
    if (!t_.votes.accept(at, value, t_.now)) return false;
    if (fresh) {
      voted_chain_ = t_.votes.accepted_chain();
      ready_ = false;
    }
    t_.post(t_.votes.durable().promised_to, vote{at, value.round, value.state});
    return true;
  }

  /// Says that this peer will never vote in `at`, after making sure of it.
  void refuse(ballot at, errc why, const std::vector<net::peer_id>& suspects) {
    if (!t_.votes.bar(at.next(), t_.now)) return;
    const net::peer_id to = t_.votes.durable().promised_to;
    t_.post(to, failure{at, why, suspects});
    t_.post(to, make_report());
  }

  /// The next durable write carries where the others are: after a restart it may be all we know.
  void meet(const view& who) {
    std::vector<located_peer> met;
    for (const view_member& m : who.members) met.push_back({m.peer, m.address});
    t_.remember(std::move(met));
  }

  /// If a promise ended the attempt: ready again is who says so afterwards, and a trainer that hangs in it never does.
  bool end_attempt() {
    if (!current_ || current_->who.at >= floor()) return false;
    ended_ = current_->who.at;
    current_.reset();
    return std::exchange(ready_, false);
  }

  void learned(std::vector<located_peer> holders) {
    const commit_record& record = *t_.votes.durable().newest;
    const bool have = voted_chain_ == newest().chain ||
                      (held_ && held_->second == record.state);  // equal hash, equal bytes: an empty round
    if (have) held_ = {record.round, record.state};
    current_.reset();
    adopting_.reset();
    ready_ = false;
    samples_ = 0;
    excluded_.clear();
    holders_ = std::move(holders);
    if (!have || !record.returned.empty()) say();  // who leaves waits until enough know
  }

  peer_table& t_;
  std::uint64_t sequence_ = 0;
  bool report_due_ = false;

  net::peer_id leader_ = 0;
  net::peer_id lost_ = 0;  ///< the leader before
  time_point leaderless_since_;
  time_point beat_at_;
  heartbeat beat_;

  std::optional<std::pair<std::uint64_t, std::uint64_t>> held_;  ///< round, state hash
  bool ready_ = false;
  std::uint64_t samples_ = 0;
  bool leaving_ = false;
  bool left_ = false;

  std::optional<go> current_;
  ballot ended_;                ///< the last attempt that ended without this peer's vote
  std::optional<go> unplaced_;  ///< waits for addresses
  std::string seen_at_;         ///< where the leader sees this peer, if elsewhere
  std::optional<adoption> adopting_;
  bool completing_ = false;
  std::uint64_t voted_chain_ = 0;  ///< the last value voted for by this process, on the trainer's word
  std::vector<located_peer> holders_;
  std::string excluded_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_FOLLOWER_HPP

// ---- causeway/membership/finder.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_FINDER_HPP
#define CAUSEWAY_MEMBERSHIP_FINDER_HPP

// How a peer without a leader finds one: it dials every address it ever heard of, a few at a time and ever more slowly, and
// asks whoever answers.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

class finder {
 public:
  finder(peer_table& t, follower& f) : t_{t}, follower_{f} {}

  void seek(const std::vector<std::string>& addresses) {
    for (const std::string& a : addresses) hear_of(a);
    t_.seeds.insert(addresses.begin(), addresses.end());
    tries_ = 0;
    next_ = reached_ = t_.now;
  }

  /// An address that somebody may listen at.
  void hear_of(const std::string& address) {
    if (!address.empty() && address != t_.settings.address && heard_.size() < max_members) heard_.insert(address);
  }

  void on(net::peer_id from, const guide& m) {
    if (t_.votes.newest().known() && !t_.acquainted(from)) return t_.reject(reject_reason::not_a_member, from);
    if (t_.acquainted(from)) t_.vouched = m.leader.peer;
    hear_of(m.leader.address);
    for (const located_peer& p : m.others) hear_of(p.address);
    if (m.leader.peer == 0 || m.leader.peer == t_.self || m.term < t_.votes.durable().floor.term) return;
    if (t_.up(m.leader.peer)) {
      t_.post(m.leader.peer, follower_.make_report());
    } else if (!m.leader.address.empty()) {
      t_.out->dial(m.leader.address);
    }
  }

  void peer_up(net::peer_id id) {
    if (follower_.leader() == 0) t_.post(id, follower_.make_report());
  }

  void peer_down(net::peer_id id) {
    if (t_.votes.is_member(id)) reached_ = t_.now;
  }

  void wake() {
    if (follower_.leader() != 0) {
      next_ = no_deadline;
      tries_ = 0;
      return;
    }
    if (next_ == no_deadline) next_ = reached_ = t_.now;
    if (t_.now < next_) return;
    dial_some();
    ask_some();
    ++tries_;
    next_ = t_.now + std::min<std::int64_t>(std::int64_t{1} << std::min(tries_ / 4, 4U), 8) * t_.settings.heartbeat;
  }

  [[nodiscard]] time_point next_wake() const noexcept { return next_; }
  /// How long nobody has been within reach without whom the run cannot go on, or who could give away how it ended.
  [[nodiscard]] duration alone_for(time_point now) const {
    const bool found = follower_.leader() != 0 || next_ == no_deadline || somebody_there();
    return found ? duration{0} : now - reached_;
  }
  [[nodiscard]] std::size_t addresses() const noexcept { return heard_.size() + t_.votes.durable().others.size(); }

 private:
  static constexpr std::size_t at_once = 8;

  /// Newcomers know no more than we do.
  [[nodiscard]] bool somebody_there() const {
    return !t_.members_that([&](net::peer_id id, const peer_entry& p) { return p.up && id != t_.self; }).empty();
  }

  void dial_some() {
    std::set<std::string> known = heard_;
    for (const located_peer& p : t_.votes.durable().others) known.insert(p.address);
    for (const auto& [id, p] : t_.peers) {
      if (!p.up && !p.address.empty()) known.insert(p.address);
    }
    known.erase(t_.settings.address);
    for (const auto& [id, p] : t_.peers) {
      if (p.up) known.erase(p.address);
    }
    const std::vector<std::string> targets{known.begin(), known.end()};
    for (std::size_t i = 0; i < std::min(at_once, targets.size()); ++i) t_.out->dial(targets[dialled_++ % targets.size()]);
  }

  void ask_some() {
    std::vector<net::peer_id> there;
    for (const auto& [id, p] : t_.peers) {
      if (p.up && id != t_.self) there.push_back(id);
    }
    for (std::size_t i = 0; i < std::min(at_once, there.size()); ++i) {
      t_.post(there[asked_++ % there.size()], follower_.make_report());
    }
  }

  peer_table& t_;
  follower& follower_;
  std::set<std::string> heard_;
  std::uint32_t tries_ = 0;
  std::size_t dialled_ = 0;
  std::size_t asked_ = 0;
  time_point next_ = no_deadline;
  time_point reached_;  ///< when somebody was there last, while there is no leader
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_FINDER_HPP

// ---- causeway/membership/takeover.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TAKEOVER_HPP
#define CAUSEWAY_MEMBERSHIP_TAKEOVER_HPP

// The end of a budget: all samples are handed out, and some of those who hold them are late, hang or are gone, while the
// others have nothing to train. When a leader lets the others take over what is missing.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// Whether every sample of the budget is done or held by somebody: a round whose peers bring nothing changes nothing,
/// unless it takes samples from those who are not there.
[[nodiscard]] inline bool handed_out(const ledger& samples) { return samples.quota() > 0 && samples.left() == 0; }

/// Since when the members have had nothing to train. Regular; for the leader alone.
class takeover {
 public:
  void begin_round(const ledger& samples, const std::vector<net::peer_id>& members) {
    const auto holds = [&](net::peer_id id) { return !samples.held(id).empty(); };
    if (std::any_of(members.begin(), members.end(), holds)) idle_since_.reset();
  }

  /// When so many peers that have nothing to train may take over what others hold: once they have waited for as long as it
  /// will take them to train it, so that waiting and doing it again cost at most twice the better of the two. Never where
  /// nothing is left.
  [[nodiscard]] time_point due(const ledger& samples, std::size_t peers, const wait_times& waits, time_point now) {
    if (samples.complete()) return no_deadline;
    if (!idle_since_) idle_since_ = now;
    const std::uint64_t missing = samples.budget() - samples.done();
    return *idle_since_ + waits.training_time((missing + peers - 1) / peers);
  }

 private:
  std::optional<time_point> idle_since_;
};

/// The middle one of what peers bring to a round; 0 of none.
[[nodiscard]] inline std::uint64_t median(std::vector<std::uint64_t> brought) {
  if (brought.empty()) return 0;
  const auto middle = brought.begin() + static_cast<std::ptrdiff_t>(brought.size() / 2);
  std::nth_element(brought.begin(), middle, brought.end());
  return *middle;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_TAKEOVER_HPP

// ---- causeway/membership/proposal.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP
#define CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP

// What a leader puts to the vote: who will be a member, whose samples count, and whose go back to the pool.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// What peers that are ready bring, in their order.
[[nodiscard]] inline std::vector<std::uint64_t> brought(const peer_table& t, const std::vector<net::peer_id>& who) {
  std::vector<std::uint64_t> samples;
  for (const net::peer_id id : who) samples.push_back(t.find(id)->said->samples);
  return samples;
}

/// A round would change nothing: nobody brings anything, there is nothing to hand out, and nobody wants to go.
[[nodiscard]] inline bool out_of_work(const peer_table& t, const std::vector<net::peer_id>& who) {
  const auto brings_nothing = [&](net::peer_id id) {
    const report& said = *t.find(id)->said;
    return said.samples == 0 && !said.leaving;
  };
  return handed_out(t.votes.durable().samples) && std::all_of(who.begin(), who.end(), brings_nothing);
}

/// The whole record but the state. Who leaves takes part, and is no member afterwards; unless all leave. A
/// round of peers out of work is a takeover: all that anybody holds goes back to the pool, and is dealt out among them.
[[nodiscard]] inline commit_record propose(const peer_table& t, const view& who) {
  commit_record r;
  r.run = t.settings.run;
  r.round = who.round;
  r.parent = who.parent;
  r.at = who.at;
  for (const view_member& m : who.members) {
    if (m.samples > 0) r.contributions.push_back({m.peer, m.samples});
    if (!t.find(m.peer)->said->leaving) r.members.push_back(m.peer);
  }
  const bool all_leave = r.members.empty();
  for (const view_member& m : who.members) {
    if (all_leave) r.members.push_back(m.peer);
    if (!all_leave && t.find(m.peer)->said->leaving) r.returned.push_back(m.peer);
  }
  std::vector<net::peer_id> here;
  for (const view_member& m : who.members) here.push_back(m.peer);
  const bool all_back = out_of_work(t, here);
  std::sort(here.begin(), here.end());
  for (const net::peer_id id : t.votes.durable().samples.holders()) {
    const peer_entry* p = t.find(id);
    const bool gone = p == nullptr || (!p->up && p->rounds_down > 0) || (p->up && p->said && p->said->leaving);
    const bool away = gone && !std::binary_search(here.begin(), here.end(), id);
    if ((away || all_back) && r.returned.size() < max_members) r.returned.push_back(id);
  }
  r.ledger = t.votes.hash_after(r);
  return r;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_PROPOSAL_HPP

// ---- causeway/membership/roll_call.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_ROLL_CALL_HPP
#define CAUSEWAY_MEMBERSHIP_ROLL_CALL_HPP

// Who answers a leader's heartbeats. A machine that loses its power says nothing, and its connections stand until its
// silence has lasted for seconds. Of hundreds of peers, one often has just gone in that way: an attempt that it is let into
// hangs for as long. The others have answered the last heartbeat by then, so it can be left out of this one.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// The last two calls, and how long answers take. Regular; for the leader alone, who answers itself.
class roll_call {
 public:
  explicit roll_call(duration every) : times_{{.floor = every / 2, .cap = every}} {}

  void called(time_point now) {
    before_ = last_;
    last_ = now;
  }
  /// Somebody answers the last call.
  void answered(time_point now) noexcept { times_.observe(now - last_); }

  /// By when whoever is there has answered the last call.
  [[nodiscard]] time_point due() const noexcept { return times_.deadline(last_); }
  /// The first of them that has not answered the last call yet; 0: nobody.
  [[nodiscard]] net::peer_id owes_answer(const peer_table& t, const std::vector<net::peer_id>& who) const {
    const auto owes = [&](net::peer_id id) { return silent_since(t, id, last_); };
    const auto at = std::find_if(who.begin(), who.end(), owes);
    return at == who.end() ? 0 : *at;
  }
  /// It should have answered by now. It may only be slow: nothing that lasts follows from that.
  [[nodiscard]] bool is_overdue(const peer_table& t, net::peer_id id) const {
    return silent_since(t, id, t.now >= due() ? last_ : before_);
  }
  /// It has said nothing from one call to the next.
  [[nodiscard]] bool has_missed(const peer_table& t, net::peer_id id) const { return silent_since(t, id, before_); }

 private:
  static bool silent_since(const peer_table& t, net::peer_id id, time_point call) {
    const peer_entry* const p = t.find(id);
    return id != t.self && (p == nullptr || p->heard < call);
  }

  net::arrival_statistics times_;
  time_point before_;
  time_point last_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_ROLL_CALL_HPP

// ---- causeway/membership/transfer_time.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TIME_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TIME_HPP

// For how long a leader holds a round back for peers that cannot fetch the state as quickly as rounds follow each other.

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// While n peers wait for one more they lose what that one would bring in n times as long. So a wait may take 1/2n of the
/// time since the last one ended; twice as much time must pass each time that it was in vain for the peer that asks.
class transfer_time {
 public:
  transfer_time() = default;
  /// Nobody has waited since `now`; `beat`: what news takes at most.
  transfer_time(time_point now, duration beat) : last_{now}, beat_{beat} {}

  /// A peer needs so long from now on. A time of 0 does not count. While it is waited for, it may turn out to need more:
  /// a round was committed meanwhile. It gets as much as it would have been given at once.
  void ask(net::peer_id id, duration needs, time_point now) {
    if (needs <= duration{0}) return;
    entry& e = asked_[id];
    needs = std::min(needs, longest);
    if (!e.until) {
      e.needs = needs;
    } else {
      e.until = std::max(*e.until, std::min(now + wait_for(needs), e.latest));
    }
  }

  /// A round could begin with `ready` peers, but without this one. What it is given from now on, if it is.
  [[nodiscard]] std::optional<duration> give(net::peer_id id, std::size_t ready, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end() || at->second.until || at->second.needs == duration{0}) return std::nullopt;
    entry& e = at->second;
    const auto shares = static_cast<duration::rep>(2 * std::max<std::size_t>(ready, 1)) << std::min(e.in_vain, 6U);
    const duration most = (now - last_) / shares;
    if (e.needs > most) return std::nullopt;
    e.until = now + wait_for(e.needs);
    e.latest = now + wait_for(most);
    return e.needs;
  }

  /// Until when the round is held back for it; `now`: no longer.
  [[nodiscard]] time_point until(net::peer_id id, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end() || !at->second.until) return now;
    if (*at->second.until > now) return *at->second.until;
    at->second = {duration{0}, std::nullopt, {}, at->second.in_vain + 1};
    last_ = now;
    return now;
  }

  /// A round begins with it.
  void took_part(net::peer_id id, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end()) return;
    if (at->second.until) last_ = now;
    asked_.erase(at);
  }

  /// Its connection ended. How often it was waited for in vain stays known.
  void forget(net::peer_id id, time_point now) {
    const auto at = asked_.find(id);
    if (at == asked_.end()) return;
    const bool waited = at->second.until.has_value();
    if (waited) last_ = now;
    at->second = {duration{0}, std::nullopt, {}, at->second.in_vain + (waited ? 1U : 0U)};
    if (at->second.in_vain == 0) asked_.erase(at);
  }

 private:
  static constexpr duration longest = std::chrono::hours{4};

  struct entry {
    duration needs{0};
    std::optional<time_point> until;
    time_point latest;  ///< that `until` may become
    unsigned in_vain = 0;
  };

  [[nodiscard]] duration wait_for(duration needs) const { return needs * 3 / 2 + beat_; }

  std::map<net::peer_id, entry> asked_;
  time_point last_;
  duration beat_{0};
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TIME_HPP

// ---- causeway/membership/leader.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_LEADER_HPP
#define CAUSEWAY_MEMBERSHIP_LEADER_HPP

// What a leader decides: who takes part in the next attempt and when it begins, when it has failed, and when a round is
// committed. It may be wrong about anybody's health without harm: only quorums of votes commit (decision.hpp,
// acceptor.hpp).

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

class leader {
 public:
  leader(peer_table& t, follower& f) : t_{t}, follower_{f}, blame_{t}, waits_{t.settings}, calls_{t.settings.heartbeat} {}

  /// A quorum promised us the term of our floor.
  void begin() {
    term_ = t_.votes.durable().floor.term;
    active_ = true;
    transfers_ = transfer_time{t_.now, t_.settings.heartbeat};
    calls_ = roll_call{t_.settings.heartbeat};
    next_ = {term_, 0};
    attempt_ = {};
    begin_round();
    for (auto& [id, p] : t_.peers) p.rounds_down = 0;  // what we counted as an earlier leader is old
    for (const net::peer_id id : t_.votes.durable().samples.holders()) (void)t_.entry(id);
    t_.note_leads(term_);
    t_.out->log(severity::info, "leading the run, term " + std::to_string(term_));
    follower_.follow(t_.self);
    follower_.say();  // our own report is of the term before
    beat();
  }

  void stand_down() { active_ = false; }

  /// The newest commit changed: a new round is to be made.
  void begin_round() {
    barrier_ = {term_, 0};
    attempt_.over();
    failures_ = 0;
    blame_.begin_round();
    failed_adoptions_.clear();
    waits_.begin_round(t_.now);
    values_seen_ = undecided_ = false;
    for (const auto& [id, p] : t_.peers) {  // who reported ahead of us does not do so again
      values_seen_ = values_seen_ || (p.said && p.said->accepted);
      if (usable(p) && p.said->ready) waits_.somebody_ready(t_.now, id);
    }
    for (const net::peer_id id : t_.members()) (void)t_.entry(id);
    takeover_.begin_round(t_.votes.durable().samples, t_.members());
  }

  // ---- what peers say --------------------------------------------------------------------------------------------------

  /// `from` has reported; `news`: something else than the last time.
  void on(net::peer_id from, bool news) {
    if (!active_) return;
    peer_entry& p = t_.entry(from);
    const report& m = *p.said;
    values_seen_ = values_seen_ || m.accepted.has_value();
    if (m.ready && usable(p)) waits_.somebody_ready(t_.now, from);
    if (m.beat == number_) calls_.answered(t_.now);
    if ((news || from == blocker_) && matters(from, p)) changed_ = true;
    if (news && m.floor.term < term_) t_.post(from, make_beat());  // it does not know that we lead, or refuses: once
    if (m.newest == t_.votes.newest() && m.holds) p.holds_round = m.newest.round;
    if (m.accepted && attempt_.running() && m.accepted->at == attempt_.at()) {
      attempt_.voted(from, m.accepted->value.state, t_.now);
    }
    if (attempt_.running() && (m.floor > attempt_.at() || m.promised_to != t_.self))
      attempt_.failed(from);  // it never will
    const bool may_vote = follows_us(p) && m.newest == t_.votes.newest() && m.floor <= attempt_.at();
    if (attempt_.adopting() && may_vote && concerns(from, attempt_.proposal()) && p.told_adoption < attempt_.at()) {
      p.told_adoption = attempt_.at();
      attempt_.ask(from);
      t_.post(from, adoption_notice());
    }
  }

  void on(net::peer_id from, const vote& m) {
    if (active_ && attempt_.running() && m.at == attempt_.at()) attempt_.voted(from, m.state, t_.now);
  }

  void on(net::peer_id from, const failure& m) {
    if (!active_ || !(t_.votes.is_member(from) || blame_.took_part(from))) return;
    if (m.why == errc::non_finite && contains(m.suspects, from)) {
      t_.out->log(severity::warning, "peer " + std::to_string(from) +
                                         " says that what it computed is not finite; the round goes on without its part");
    }
    if (m.at.term != term_) return;
    blame_.on(from, m);
    if (attempt_.running() && m.at == attempt_.at()) attempt_.failed(from);
  }

  /// Who has not said that it follows us would take part in no round that waits for it.
  void asked_for_time(net::peer_id from, duration needs) {
    if (!active_) return;
    if (!t_.votes.is_member(from) && !follows_us(t_.entry(from))) return t_.reject(reject_reason::not_a_member, from);
    transfers_.ask(from, needs, t_.now);
    changed_ = true;
  }

  void peer_up(net::peer_id id) {
    if (!active_) return;
    t_.entry(id).rounds_down = 0;
    t_.post(id, make_beat());
  }

  void peer_down(net::peer_id id) {
    changed_ = true;
    transfers_.forget(id, t_.now);
    if (active_ && attempt_.running()) attempt_.lost(id);
  }

  // ---- what time says --------------------------------------------------------------------------------------------------

  void wake() {
    if (!active_ || t_.now < next_beat_) return;
    drop_silent();
    beat();
  }

  [[nodiscard]] time_point next_wake() const {
    if (!active_) return no_deadline;
    return std::min(next_beat_, attempt_.running() ? waits_.attempt_deadline(attempt_) : go_at_);
  }

  /// After every event. True: this leader needs a higher term to lead somebody who promised one to another.
  bool decide() {
    if (!active_) return false;
    if (t_.votes.durable().promised_to != t_.self || t_.votes.durable().floor.term != term_) {
      active_ = false;
      if (follower_.leader() == t_.self) follower_.lose_leader();  // or it would refuse whoever leads a later term
      return false;
    }
    if (!std::exchange(changed_, false) && t_.now < next_wake()) return false;
    if (attempt_.running()) return judge(), false;
    return gather();
  }

  void touch() { changed_ = true; }

  // ---- to look at ------------------------------------------------------------------------------------------------------

  /// Some of those who have the newest state, others for each who asks.
  [[nodiscard]] holder_list holders_for(net::peer_id id) const {
    std::vector<located_peer> all;
    for (const auto& [other, p] : t_.peers) {
      if (p.up && p.holds_round == t_.votes.newest().round && t_.votes.newest().known()) all.push_back({other, p.address});
    }
    if (all.size() > holders_told) {
      std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(id % all.size()), all.end());
      all.resize(holders_told);
    }
    return {t_.votes.newest(), all};
  }

  [[nodiscard]] bool active() const noexcept { return active_; }
  /// Of our last attempt, or else the members.
  [[nodiscard]] const std::vector<net::peer_id>& last_view() const {
    return active_ && !blame_.last_order().empty() ? blame_.last_order() : t_.members();
  }
  [[nodiscard]] const std::string& waiting_for() const noexcept { return waiting_; }
  [[nodiscard]] bool stuck() const noexcept { return stuck_; }
  [[nodiscard]] std::string describe(time_point now) const {
    if (!attempt_.running()) return waiting_;
    return std::string{attempt_.adopting() ? "adoption" : "exchange"} + " since " +
           std::to_string(seconds(now - attempt_.began())) + " s: " + attempt_.summary();
  }

 private:
  [[nodiscard]] bool follows_us(const peer_entry& p) const {
    return p.up && p.said && p.said->floor.term == term_ && p.said->promised_to == t_.self;
  }
  /// It can never vote in a ballot of ours below barrier_ any more, and told what it voted for before.
  [[nodiscard]] bool usable(const peer_entry& p) const {
    return follows_us(p) && !p.said->partial && p.said->floor >= barrier_ && p.said->newest == t_.votes.newest();
  }

  // -- between attempts

  /// Whether decide() could come to another result. In a big run most reports say that one more peer is ready while others
  /// are waited for, and looking at everybody each time would cost n^2.
  [[nodiscard]] bool matters(net::peer_id from, const peer_entry& p) const {
    if (attempt_.running() || values_seen_ || !usable(p) || p.said->leaving) return true;
    const std::size_t least = std::max({least_peers(), first_peers(), (t_.members().size() + 1) / 2});
    if (waits_.ready_count() < least) return false;
    return blocker_ == 0 || blocker_ == from || waits_.ready_count() >= look_again_at_;
  }

  bool gather() {
    std::uint32_t above = 0;
    for (auto& [id, p] : t_.peers) {
      if (!p.up || !p.said) continue;
      if (needs_new_term(id, p)) above = std::max(above, p.said->floor.term);
      if (follows_us(p)) next_ = std::max(next_, p.said->floor);  // called off by somebody else in our name
      if (follows_us(p) && p.said->floor < barrier_ && p.told_floor < barrier_) {
        p.told_floor = barrier_;
        t_.post(id, abort_attempt{barrier_});
      }
    }
    let_go();
    const std::vector<net::peer_id> heard = t_.members_that([&](auto, const peer_entry& p) { return usable(p); });
    go_at_ = no_deadline;
    blocker_ = 0;
    stuck_ = !t_.quorum_up();
    if (stuck_) {
      if (above > 0) active_ = false;  // somebody else may lead: ask as everybody does
      if (above > 0) follower_.lose_leader();
      return say_waiting("members within reach", heard), false;
    }
    if (above > 0 || next_.attempt >= ballot::max_attempt - 1) return take_new_term(), true;
    if (t_.now < waits_.pause_until(failures_)) {
      go_at_ = waits_.pause_until(failures_);
      return say_waiting("members reported, pause after many failures", heard), false;
    }
    const proposal_rule rule = what_may_be_proposed(t_.members(), statements(heard));
    const bool waits = rule.is == proposal_rule::wait;
    if (waits != std::exchange(undecided_, waits)) changed_ = true;
    if (waits) return say_waiting("members reported", heard), false;
    if (rule.value != nullptr && adoptable(rule)) return begin_adoption(*rule.value), false;
    if (rule.is == proposal_rule::bound) {
      stuck_ = true;
      waiting_ = "round " + std::to_string(t_.votes.newest().round + 1) +
                 " may be committed already, and nobody who holds its state is here: start one of its members again";
      return false;
    }
    try_go();
    return false;
  }

  /// A new term is needed to lead it. Only once in a round for a peer that the round can be made without: who says so again
  /// and again would stop the run.
  [[nodiscard]] bool needs_new_term(net::peer_id id, const peer_entry& p) const {
    if (!t_.promised_elsewhere(p) || !t_.acquainted(id) || !t_.near(p.said->floor.term)) return false;
    const auto fit = [&](auto, const peer_entry& q) { return usable(q); };
    return undecided_ || p.renewed_for != t_.votes.newest().round + 1 || !is_quorum(t_.members(), t_.members_that(fit));
  }
  void take_new_term() {
    for (auto& [id, p] : t_.peers) p.renewed_for = needs_new_term(id, p) ? t_.votes.newest().round + 1 : p.renewed_for;
  }

  /// Who leaves may go once the run can go on without it: a quorum of the members knows the commit that left it out. Or
  /// when all leave, and nobody is here who would go on.
  void let_go() {
    const auto informed = [&](net::peer_id, const peer_entry& p) {
      return p.up && p.said && p.said->newest == t_.votes.newest();
    };
    const std::vector<net::peer_id> know = t_.members_that(informed);
    if (!is_quorum(t_.members(), know)) return;
    bool all = know.size() == t_.members().size();
    for (const auto& [id, p] : t_.peers) {
      all = all && (!p.up || !p.said || (p.said->leaving && (!p.said->ready || p.said->samples == 0)));
    }
    for (const auto& [id, p] : t_.peers) {
      if (p.up && p.said && p.said->leaving && (all || !t_.votes.is_member(id))) t_.post(id, farewell{true});
    }
  }

  [[nodiscard]] std::vector<statement> statements(const std::vector<net::peer_id>& heard) const {
    std::vector<statement> all;
    for (const net::peer_id id : heard) {
      const auto& accepted = t_.find(id)->said->accepted;
      all.push_back({id, accepted ? &*accepted : nullptr});
    }
    return all;
  }

  /// A value that does not bind is proposed again only if there are too few to make the round anew.
  [[nodiscard]] bool adoptable(const proposal_rule& rule) const {
    const bool again = failed_adoptions_.contains(rule.value->chain());
    if (rule.is == proposal_rule::free && again && enough(participants(true))) return false;
    return !t_.voters_for(*rule.value, 1).empty();
  }

  void begin_adoption(const commit_record& wanted) {
    const commit_record value = wanted;  // reports may change while we tell
    std::vector<net::peer_id> asked;
    for (auto& [id, p] : t_.peers) {
      if (usable(p) && concerns(id, value)) asked.push_back(id);
    }
    attempt_.begin_adoption(next_, value, asked, t_.now);
    blame_.begin_adoption(next_);
    barrier_ = next_ = next_.next();
    for (const net::peer_id id : asked) t_.entry(id).told_adoption = attempt_.at();
    t_.out->log(severity::info, "round " + std::to_string(value.round) + " is taken over from its voters");
    t_.post_all(asked, adoption_notice());
  }

  [[nodiscard]] bool concerns(net::peer_id id, const commit_record& value) const {
    return t_.votes.is_member(id) || contains(value.members, id);
  }

  [[nodiscard]] adoption adoption_notice() const {
    return {attempt_.at(), attempt_.proposal(), t_.voters_for(attempt_.proposal(), holders_told)};
  }

  /// Whether a peer has said since the last attempt that it is ready for another.
  [[nodiscard]] auto is_ready() const {
    return [this](net::peer_id id) {
      const peer_entry* p = t_.find(id);
      return p != nullptr && usable(*p) && p->said->ready;
    };
  }

  void try_go() {
    if (awaits_answers()) return say_waiting("peers ready again after a failed attempt", participants(true));
    blame_.decide(is_ready(), participants(false), [&](const auto& left) { return enough(left); });
    std::vector<net::peer_id> who = participants(false);
    if (!enough(who)) who = participants(true);  // better with a peer in disgrace than not at all
    if (!enough(who)) return say_waiting("peers ready", who);
    if (!waits_.had_enough() && !are_most(who) && t_.now < waits_.pace_deadline()) {
      go_at_ = waits_.pace_deadline();
      return say_waiting("peers ready, fewer than half of those who train", who);
    }
    waits_.enough_ready(t_.now, median(brought(t_, who)));
    go_at_ = wait_for_others(who);
    if (const net::peer_id silent = calls_.owes_answer(t_, who); silent != 0 && go_at_ < calls_.due()) {
      go_at_ = calls_.due();
      blocker_ = silent;
    }
    if (t_.now < go_at_) return say_waiting("peers ready", who);
    if (!out_of_work(t_, who)) return go_with(who);
    go_at_ = takeover_.due(t_.votes.durable().samples, who.size(), waits_, t_.now);
    if (t_.now < go_at_) return say_waiting("peers ready with nothing left to train", who);
    go_with(who);
  }

  bool awaits_answers() {
    if (!blame_.is_open()) return false;
    const auto through = [&](net::peer_id id) { return is_ready()(id) || calls_.has_missed(t_, id); };
    blocker_ = blame_.owes_answer(through);
    if (blocker_ == 0) waits_.answered(t_.now);
    if (blocker_ == 0 || t_.now >= waits_.answer_deadline()) return false;
    go_at_ = waits_.answer_deadline();
    return true;
  }

  [[nodiscard]] bool can_take_part(net::peer_id id, const peer_entry& p) const {
    const ledger& samples = t_.votes.durable().samples;
    return !calls_.is_overdue(t_, id) && usable(p) && p.said->ready && p.said->holds &&
           (samples.quota() == 0 || p.said->samples <= samples.held_count(id));
  }

  /// Members first, in their order, then the others: the first of them breaks ties of a quorum.
  [[nodiscard]] std::vector<net::peer_id> participants(bool paused_too) const {
    const auto fit = [&](net::peer_id id, const peer_entry& p) {
      return can_take_part(id, p) && (paused_too || p.pause == 0);
    };
    std::vector<net::peer_id> who = t_.members_that(fit);
    for (const auto& [id, p] : t_.peers) {
      if (who.size() < max_members && !t_.votes.is_member(id) && fit(id, p)) who.push_back(id);
    }
    return who;
  }

  [[nodiscard]] bool enough(const std::vector<net::peer_id>& who) const {
    return waits_.ready_count() >= first_peers() && who.size() >= least_peers() && is_quorum(t_.members(), who);
  }

  /// At least half of the peers here that have something to train. A quorum of the members may be far fewer where the last
  /// round was made without many; rounds would get ever smaller, and ever more.
  [[nodiscard]] bool are_most(const std::vector<net::peer_id>& who) const {
    std::size_t all = 0;
    std::size_t ready = 0;
    for (const auto& [id, p] : t_.peers) {
      if (p.up && p.pause == 0 && !is_newcomer(id)) ++all;
    }
    for (const net::peer_id id : who) ready += is_newcomer(id) ? 0U : 1U;
    return 2 * ready >= all;
  }

  [[nodiscard]] std::size_t least_peers() const { return std::max(t_.settings.min_peers, 1U); }
  /// Who must have come before the first round. They need not all be there at one time: of many, some are always gone.
  [[nodiscard]] std::size_t first_peers() const { return t_.votes.newest().round == 0 ? t_.settings.expected : 0; }

  /// Neither a member nor somebody who was one and is late.
  [[nodiscard]] bool is_newcomer(net::peer_id id) const {
    return !t_.votes.is_member(id) && t_.votes.durable().samples.held(id).empty();
  }

  /// Until when the peers that usually come are waited for. `now` or earlier: nobody is missing.
  [[nodiscard]] time_point wait_for_others(const std::vector<net::peer_id>& who) {
    const std::set<net::peer_id> in{who.begin(), who.end()};
    const std::size_t late = late_peers(in);
    look_again_at_ = waits_.ready_count() + (late + 1) / 2;
    const time_point grace = waits_.grace_deadline(static_cast<double>(late) / static_cast<double>(late + who.size()));
    const bool has_work = !handed_out(t_.votes.durable().samples);  // for newcomers
    time_point until = t_.now;
    for (const auto& [id, p] : t_.peers) {
      if (!p.up || p.pause > 0 || in.contains(id)) continue;
      const bool expected = !is_newcomer(id);
      const bool ends_the_last = follows_us(p) && p.said->ready && p.said->floor < barrier_;
      if (ends_the_last) until = std::max(until, waits_.answer_deadline());
      if (expected && p.unwaited == 0) until = std::max(until, grace);
      if (expected || has_work) until = std::max(until, time_for_transfer(id, who.size()));
      if (until > t_.now && blocker_ == 0) blocker_ = id;
    }
    return until;
  }

  /// How many of the peers here that usually come are not in `in`.
  [[nodiscard]] std::size_t late_peers(const std::set<net::peer_id>& in) const {
    std::size_t late = 0;
    for (const auto& [id, p] : t_.peers) {
      if (p.up && p.pause == 0 && p.unwaited == 0 && !in.contains(id) && !is_newcomer(id)) ++late;
    }
    return late;
  }

  /// Until when this round stands still for the transfer of one peer; `now`: it does not.
  time_point time_for_transfer(net::peer_id id, std::size_t ready) {
    if (const auto given = transfers_.give(id, ready, t_.now)) {
      t_.out->log(severity::info, "round " + std::to_string(t_.votes.newest().round + 1) + " waits up to " +
                                      std::to_string(seconds(transfers_.until(id, t_.now) - t_.now)) +
                                      " s for the transfer of peer " + std::to_string(id));
      t_.out->give_time(id, *given);
    }
    return transfers_.until(id, t_.now);
  }

  void go_with(const std::vector<net::peer_id>& who) {
    go m;
    m.who.at = next_;
    m.who.round = t_.votes.newest().round + 1;
    m.who.parent = t_.votes.newest().chain;
    for (const net::peer_id id : who) {
      const peer_entry& p = t_.entry(id);
      m.who.members.push_back({id, t_.address_of(id), p.said->samples});
    }
    m.proposal = propose(t_, m.who);
    t_.say_places(m);
    settle_absent(who);
    blame_.begin_exchange(next_, who);
    attempt_.begin_exchange(next_, m.proposal, who, t_.now);
    barrier_ = next_ = next_.next();
    waits_.began(failures_);
    t_.post_all(who, m);
  }

  /// Counts for those that this attempt begins without.
  void settle_absent(const std::vector<net::peer_id>& who) {
    const std::set<net::peer_id> in{who.begin(), who.end()};
    for (auto& [id, p] : t_.peers) {
      const bool takes_part = in.contains(id);
      if (takes_part) transfers_.took_part(id, t_.now);
      if (takes_part && t_.votes.is_member(id)) p.wasted = p.unwaited = 0;
      if (p.pause > 0 && !takes_part) --p.pause;
      if (failures_ > 0) continue;
      if (p.unwaited > 0) {
        --p.unwaited;
      } else if (!takes_part && p.up && !is_newcomer(id)) {
        p.unwaited = 1U << std::min(p.wasted++, 6U);
      }
    }
  }

  // -- during an attempt

  void judge() {
    if (attempt_.recorded()) return;  // our own record comes next
    const bool over = attempt_.all_answered() || t_.now >= waits_.attempt_deadline(attempt_);
    if (over || attempt_.adopting()) {
      if (const auto choice = attempt_.choice(t_.members())) return commit(*choice);
    }
    const bool hopeless = attempt_.somebody_gone() && !attempt_.somebody_voted();
    const bool no_holder =
        attempt_.adopting() && t_.voters_for(attempt_.proposal(), holders_told).empty() && !attempt_.somebody_voted();
    if (over || (hopeless && !attempt_.adopting()) || no_holder) give_up();
  }

  void give_up() {
    ++failures_;
    if (attempt_.adopting()) failed_adoptions_.insert(attempt_.proposal().chain());
    blame_.failed(attempt_);
    t_.out->log(severity::warning, "attempt " + std::to_string(failures_) + " at round " +
                                       std::to_string(attempt_.proposal().round) + " failed: " + attempt_.summary());
    waits_.failed(t_.now);
    attempt_.over();
    changed_ = true;
    gather();
  }

  void commit(std::uint64_t state) {
    commit_record record = attempt_.proposal();
    record.state = state;
    waits_.committed(attempt_);
    commit_notice with{{record.round, record.chain()}, record, attempt_.votes_for(state, t_.members()), {}};
    std::vector<net::peer_id> voters;
    std::vector<net::peer_id> others;
    for (auto& [id, p] : t_.peers) {
      if (!p.up) ++p.rounds_down;
      if (!p.up || !p.said) continue;
      blame_.committed(attempt_, id, p);
      const bool holds = attempt_.voted_for(id, state);
      (holds ? voters : others).push_back(id);
      if (attempt_.diverged(id, state)) t_.reject(reject_reason::diverged, id);
      if (p.said->newest == t_.votes.newest()) p.rounds_told = record.round + 1, p.told_at = t_.now;
      if (!holds) continue;
      p.holds_round = record.round;
      if (with.holders.size() < holders_told) with.holders.push_back({id, p.address});
    }
    t_.post_all(others, with);
    with = {with.of, record, with.votes, {}, true};
    t_.post_all(voters, with);
    attempt_.wait_for_record();
  }

  // -- heartbeats

  [[nodiscard]] heartbeat make_beat() const {
    const auto reached = t_.members_that([](auto, const peer_entry& p) { return p.up; });
    return {term_, number_, t_.votes.newest(), static_cast<std::uint32_t>(reached.size()), t_.quorum_follows()};
  }

  void beat() {
    next_beat_ = t_.now + t_.settings.heartbeat;
    ++number_;
    calls_.called(t_.now);
    changed_ = true;  // who was late with its answers may be there by now
    std::vector<net::peer_id> others;
    if (number_ % 8 == 1) called_ = t_.call_the_lost(called_);
    for (auto& [id, p] : t_.peers) {
      if (p.up && id != t_.self) others.push_back(id);
      if (p.up && p.said && p.said->newest == t_.votes.newest() && !p.said->holds) t_.post(id, holders_for(id));
    }
    t_.post_all(others, make_beat());
  }

  void drop_silent() {
    for (auto& [id, p] : t_.peers) {
      if (id == t_.self || !p.up || t_.now - p.heard <= p.beats.patience()) continue;
      const std::string why = "silent for " + std::to_string(seconds(t_.now - p.heard)) + " s";
      t_.out->log(severity::warning, "peer " + std::to_string(id) + " is " + why + "; the others go on without it");
      t_.out->drop(id, why);
      p.up = false;
      p.said.reset();
      peer_down(id);
    }
  }

  void say_waiting(const char* what, const std::vector<net::peer_id>& have) {
    waiting_ = std::to_string(have.size()) + " " + what + ", " + std::to_string(t_.members().size()) +
               " members in round " + std::to_string(t_.votes.newest().round);
  }

  static constexpr std::size_t holders_told = 8;

  peer_table& t_;
  follower& follower_;
  bool active_ = false;
  std::uint32_t term_ = 0;
  ballot next_;     ///< of the next attempt
  ballot barrier_;  ///< statements count from peers barred below it: above all our ballots in this round
  attempt attempt_;
  blame blame_;
  wait_times waits_;
  roll_call calls_;
  std::uint32_t failures_ = 0;  ///< attempts at this round
  std::set<std::uint64_t> failed_adoptions_;
  transfer_time transfers_;
  time_point next_beat_;
  time_point go_at_ = no_deadline;
  takeover takeover_;
  std::uint32_t number_ = 0;
  std::size_t called_ = 0;
  std::string waiting_;
  bool stuck_ = false;
  bool changed_ = true;            ///< something that decide() looks at
  net::peer_id blocker_ = 0;       ///< somebody we wait for: until it moves, others need not be looked at; 0: nobody
  std::size_t look_again_at_ = 0;  ///< so many are ready: half of those who were late then have come
  bool undecided_ = false;         ///< those who reported cannot say what may be proposed: others are needed
  bool values_seen_ = false;       ///< somebody voted for this round already
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_LEADER_HPP

// ---- causeway/membership/protocol.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP
#define CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP

// One peer's part in the membership of a run: a pure state machine. Events go in, effects come out; it has no threads, no
// clock and does no I/O, so that it runs unchanged over TCP and in a simulator. docs/design/membership.md has the protocol
// and the reasons why no round is ever committed twice.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Thread safety: none; the fabric's lock serves. Cost of a call: O(n log n) at most; memory O(n).
class protocol {
 public:
  /// `record`: what the last process persisted, or fresh_record. `fx` must outlive this object.
  protocol(options o, durable_record record, effects& fx)
      : t_{std::move(o), std::move(record), fx},
        follower_{t_},
        evidence_{t_},
        candidate_{t_},
        finder_{t_, follower_},
        leader_{t_, follower_} {}
  protocol(const protocol&) = delete;
  protocol& operator=(const protocol&) = delete;

  // ---- from the network --------------------------------------------------------------------------------------------

  /// The first peer of a new run: commits round 0 with itself as the only member. It holds that state.
  void found(std::uint64_t state_hash, time_point now) {
    begin(now);
    follower_.found(state_hash);
    start({});
    finish();
  }

  /// Looks for the run at these addresses and at those it remembers, until it finds it. Also after a restart.
  void join(const std::vector<std::string>& addresses, time_point now) {
    begin(now);
    start(addresses);
    finish();
  }

  void peer_up(net::peer_id peer, const std::string& address, time_point now) {
    begin(now);
    if (stopped() || peer == t_.self || peer == 0) return;
    detail::peer_entry& p = t_.entry(peer);
    if (p.up) down(peer);  // another connection: what was said on the last one is lost
    p = fresh_connection(p);
    if (!address.empty()) p.address = address;
    p.up = true;
    p.heard = now;
    leader_.touch();
    leader_.peer_up(peer);
    candidate_.peer_up(peer);
    finder_.peer_up(peer);
    evidence_.peer_up(peer);
    finish();
  }

  void peer_down(net::peer_id peer, const std::string& why, time_point now) {
    begin(now);
    if (stopped() || !t_.up(peer) || peer == t_.self) return;
    t_.out->log(severity::debug, "peer " + std::to_string(peer) + " is down: " + why);
    down(peer);
    finish();
  }

  void unreachable(const std::string& address, const std::string& why, time_point now) {
    begin(now);
    t_.out->log(severity::debug, address + " cannot be reached: " + why);
  }

  void message(net::peer_id from, std::span<const std::byte> bytes, time_point now) {
    begin(now);
    if (stopped() || from == t_.self) return;
    if (!t_.up(from)) return t_.reject(reject_reason::unknown_peer, from);
    result<detail::message> m = detail::decode_message(t_.settings.run, bytes, t_.votes.base());
    if (!m) {
      turn_away(from, m.error().code == errc::wrong_run ? reject_reason::wrong_run : reject_reason::malformed,
                m.error().text());
      return finish();
    }
    t_.entry(from).heard = now;
    dispatch(from, *m);
    finish();
  }

  /// Something that came over the same connection is no message of anybody's: its sender is sent away.
  void malformed(net::peer_id from, const std::string& why, time_point now) {
    begin(now);
    if (stopped() || !t_.up(from) || from == t_.self) return;
    turn_away(from, reject_reason::malformed, why);
    finish();
  }

  /// `from` cannot fetch the state as quickly as rounds follow each other: it asks the leader to hold one back for `needs`.
  void asks_for_time(net::peer_id from, duration needs, time_point now) {
    begin(now);
    if (!stopped() && t_.up(from)) leader_.asked_for_time(from, needs);
    finish();
  }

  void wake(time_point now) {
    begin(now);
    finish();
  }

  /// Lets another one lead, for as long as one does. For a leader that is there, but cannot write what it decides.
  void resign(time_point now) {
    begin(now);
    if (!stopped() && leader_.active()) {
      leader_.stand_down();
      follower_.lose_leader();
    }
    finish();
  }

  /// A record that `persist` took cannot be made durable after all. What was sent since must not have left this peer.
  void disk_failed(time_point now) {
    begin(now);
    if (stopped()) return;
    t_.votes.lose_disk();
    say_goodbye();
    finish();
  }

  // ---- from the trainer ----------------------------------------------------------------------------------------------

  /// This peer has the full state of a committed round: after a transfer or a restart.
  void holds(std::uint64_t round, std::uint64_t state_hash, time_point now) {
    begin(now);
    if (!stopped()) follower_.holds(round, state_hash);
    finish();
  }
  /// This peer can take part in `round`, on top of `parent`, with so many samples. Holds until the round is committed.
  void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples, time_point now) {
    begin(now);
    if (!stopped()) follower_.ready(round, parent, samples);
    finish();
  }
  /// The exchange of `current` went through, and the trainer is about to make its result durable: what would end the
  /// attempt waits for voted() or failed(), so that nobody's samples are used up for nothing. False: it is over already.
  bool completed(ballot at, time_point now) {
    begin(now);
    const bool in_time = !stopped() && follower_.completed(at);
    finish();
    return in_time;
  }
  /// The candidate state of `current` (exchange or adopt) is durable and has this hash. Ignored if the attempt is over.
  void voted(ballot at, std::uint64_t round, std::uint64_t state_hash, time_point now) {
    begin(now);
    if (!stopped()) follower_.voted(at, round, state_hash);
    take_deferred();
    finish();
  }
  /// The exchange (or the fetch of an adopt) failed; `suspects` are the peers whose messages did not come or could not be
  /// used, as far as this peer saw that; it may be one of them. None: it does not know whose fault it was.
  void failed(ballot at, errc why, const std::vector<net::peer_id>& suspects, time_point now) {
    begin(now);
    if (!stopped()) follower_.failed(at, why, suspects);
    take_deferred();
    finish();
  }
  /// What this peer was to contribute is not finite, and it gives it up. `at`: the attempt that it was let into, if any.
  void unusable(ballot at, time_point now) {
    begin(now);
    if (!stopped()) follower_.unusable(at);
    take_deferred();
    finish();
  }
  /// Takes part until a commit has made the others independent of this peer: situation::left. Go on to answer with ready
  /// (of 0 samples, once its work is committed) and voted until then.
  void leave(time_point now) {
    begin(now);
    if (!stopped()) follower_.leave();
    finish();
  }

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] const situation& now_what() const noexcept { return situation_; }
  /// After the newest commit known.
  [[nodiscard]] const ledger& samples() const noexcept { return t_.votes.durable().samples; }
  [[nodiscard]] const durable_record& durable() const noexcept { return t_.votes.durable(); }
  [[nodiscard]] net::peer_id self() const noexcept { return t_.self; }
  /// What the commit of `round` with this state would leave to be remembered, or has left: see round_store::save. Empty: it
  /// is neither the newest commit nor what this peer is about to vote for.
  [[nodiscard]] std::vector<std::byte> record_of(std::uint64_t round, std::uint64_t state) const;
  /// How long no other member of the newest commit known has been within reach. 0 for who leads or follows.
  [[nodiscard]] duration alone_for(time_point now) const { return finder_.alone_for(now); }
  /// 0: none known.
  [[nodiscard]] net::peer_id leader() const noexcept { return follower_.leader(); }
  [[nodiscard]] std::uint64_t rejected(reject_reason why) const noexcept { return t_.rejected(why); }
  /// chain() of the newest commit known, 0 where none is.
  [[nodiscard]] std::uint64_t newest_chain() const noexcept { return t_.votes.newest().chain; }

  /// A few lines for people: where it stands, who leads, who is waited for, what was refused.
  [[nodiscard]] std::string describe(time_point now) const;

 private:
  static detail::peer_entry fresh_connection(const detail::peer_entry& old) {
    detail::peer_entry p = old;
    p.said.reset();
    p.rounds_told = 0;
    p.told_floor = p.told_adoption = {};
    p.word = {};
    p.answer = {};
    p.answered = false;
    p.asks = false;
    p.last_beat = 0;
    return p;
  }

  [[nodiscard]] bool stopped() const { return !t_.votes.broken().empty() || follower_.has_left(); }

  /// Every event begins here. A process that was stopped for a while must not take its own absence for that of others.
  void begin(time_point now) {
    t_.now = now;
    if (asked_wake_ != no_deadline && now - asked_wake_ > t_.settings.silence.floor / 2) {
      for (auto& [id, p] : t_.peers) p.heard = now;
      follower_.forgive();
    }
    if (asked_wake_ <= now) asked_wake_ = no_deadline;  // that one is used up
  }

  void start(const std::vector<std::string>& addresses) {
    if (!std::exchange(started_, true)) t_.votes.note_boot(t_.now);
    finder_.seek(addresses);
    const bool alone = t_.members().size() == 1 && t_.votes.is_member(t_.self);
    if (alone) candidate_.renew();
    if (follower_.leader() == 0) candidate_.schedule(0);
  }

  void down(net::peer_id peer) {
    detail::peer_entry& p = t_.entry(peer);
    p.up = false;
    p.said.reset();
    leader_.touch();
    leader_.peer_down(peer);
    finder_.peer_down(peer);
    if (follower_.leader() == peer) follower_.lose_leader();
  }

  void turn_away(net::peer_id peer, reject_reason reason, const std::string& why) {
    t_.reject(reason, peer);
    t_.out->drop(peer, why);
    down(peer);
  }

  void dispatch(net::peer_id from, const detail::message& m) {
    if (t_.may_lead(from) && std::visit([&](const auto& body) { return follower_.must_wait(body); }, m)) {
      if (deferred_.size() < most_deferred) deferred_.emplace_back(from, m);
      return;
    }
    std::visit([&](const auto& body) { take(from, body); }, m);
  }

  /// What came while a vote was on its way, in its order.
  void take_deferred() {
    for (const auto& [from, m] : std::exchange(deferred_, {})) {
      if (!stopped() && (from == t_.self || t_.up(from))) dispatch(from, m);
    }
  }

  template <class Message>
  void take(net::peer_id from, const Message& m) {
    if constexpr (std::is_same_v<Message, detail::report>) {
      take_report(from, m);
    } else if constexpr (std::is_same_v<Message, detail::guide>) {
      finder_.on(from, m);
    } else if constexpr (std::is_same_v<Message, detail::vote> || std::is_same_v<Message, detail::failure>) {
      leader_.touch();
      leader_.on(from, m);
    } else if constexpr (std::is_same_v<Message, detail::commit_notice>) {
      take_notice(from, m);
    } else if constexpr (std::is_same_v<Message, detail::sync>) {
      evidence_.told(from, m.record, m.votes, &m.samples, m.holders);
    } else if constexpr (std::is_same_v<Message, detail::inquiry>) {
      evidence_.reply(from, m);
    } else if constexpr (std::is_same_v<Message, detail::confirmation>) {
      evidence_.heard(from, m);
    } else if constexpr (std::is_same_v<Message, detail::address_request>) {
      t_.post(from, detail::address_list{t_.places_of(m.who.empty() ? leader_.last_view() : m.who)});
    } else {
      if constexpr (std::is_same_v<Message, detail::heartbeat>) evidence_.heard(from, m.newest);
      follower_.on(from, m);
    }
  }

  void take_notice(net::peer_id from, const detail::commit_notice& m) {
    if (from == t_.self) {  // the votes were counted here
      if (follower_.learn({m.record, std::nullopt, m.votes, m.holders, 0, {from}})) learned();
      return;
    }
    evidence_.heard(from, m.of);
    const auto& vote = t_.votes.durable().accepted;
    const bool voted = vote && t_.votes.accepted_chain() == m.of.chain;
    if (m.partial || (m.brief && !voted)) {
      if (t_.votes.newest().older_than(m.of)) t_.post(from, follower_.make_report());  // to be told the whole
    } else {
      evidence_.told(from, m.brief ? vote->value : m.record, m.votes, nullptr, m.holders);
    }
  }

  void take_report(net::peer_id from, const detail::report& m) {
    detail::peer_entry& p = t_.entry(from);
    if (p.said && m.sequence <= p.said->sequence) return;  // overtaken by a newer one
    if (m.samples > max_round_samples) return t_.reject(reject_reason::wrong_ledger, from);
    evidence_.heard(from, m.newest);
    if (!m.address.empty()) p.address = m.address;
    if (m.beat != 0 && m.beat == p.last_beat + 1) p.beats.observe(t_.now - p.beat_at);
    if (m.beat != 0) {
      p.last_beat = m.beat;
      p.beat_at = t_.now;
    }
    const bool news = !p.said || !p.said->repeats(m);
    p.said = m;
    const std::uint32_t seen = candidate_.highest_seen();
    candidate_.on(from, m);
    if (candidate_.highest_seen() != seen) leader_.touch();  // it may have to lead a later term
    if (from != t_.self) {
      const bool leads = leader_.active() && m.newest.older_than(t_.votes.newest());
      follower_.tell_newer(from, m.newest, leads ? leader_.holders_for(from).holders : std::vector<located_peer>{});
    }
    leader_.on(from, news);
    if (!leader_.active() && !candidate_.active() && from != t_.self) t_.post(from, follower_.make_guide());
  }

  void learned() {
    leader_.touch();
    if (leader_.active()) leader_.begin_round();
    evidence_.tell_who_asked();
  }

  /// Every event ends here: lets time pass, lets everybody decide, delivers what we said to ourselves, tells the trainer.
  void finish() {
    if (started_ && !stopped()) {
      leader_.wake();
      if (follower_.check_silence()) leader_.touch();
      settle();
    }
    refresh();
    const time_point next = stopped() || !started_ ? no_deadline : std::max(next_wake(), t_.now + shortest_wait);
    if (std::exchange(asked_wake_, next) != next) t_.out->wake_at(next);
  }

  void settle() {
    for (int turn = 0; turn < 64 && !stopped(); ++turn) {
      follower_.settle();
      while (!t_.to_self.empty()) {
        const detail::message m = std::move(t_.to_self.front());
        t_.to_self.pop_front();
        dispatch(t_.self, m);
      }
      while (const auto commit = evidence_.believed()) {
        if (follower_.learn(*commit)) learned();
      }
      follower_.settle();  // what we told ourselves may have ended an attempt
      elect();
      if (leader_.decide()) candidate_.renew();
      finder_.wake();
      if (t_.to_self.empty()) break;
    }
    if (stopped()) say_goodbye();
  }

  void elect() {
    const bool led = leader_.active() || (follower_.leader() != 0 && follower_.leader() != t_.self);
    if (led && !leader_.active()) candidate_.stand_back();
    if (!led) candidate_.schedule(follower_.lost_leader());
    candidate_.wake();
    if (candidate_.won()) {
      leader_.begin();
    }
  }

  /// A peer that stops says so, so that nobody waits for its silence.
  void say_goodbye() {
    t_.to_self.clear();
    for (auto& [id, p] : t_.peers) {
      if (id == t_.self || !p.up) continue;
      if (t_.votes.broken().empty()) {
        t_.post(id, detail::farewell{false});
      } else {
        t_.out->drop(id, t_.votes.broken());
      }
    }
    event e;
    e.what = event::left;
    e.at_time = t_.now;
    e.peer = t_.self;
    t_.out->note(e);
  }

  [[nodiscard]] time_point next_wake() const {
    time_point next = std::min({candidate_.next_wake(), finder_.next_wake(), leader_.next_wake(), evidence_.next_wake()});
    if (!leader_.active() && follower_.leader() != 0) next = std::min(next, t_.now + t_.settings.heartbeat);
    if (follower_.leader() == 0) next = std::min(next, t_.now + t_.settings.heartbeat);
    return next;
  }

  // ---- the situation ---------------------------------------------------------------------------------------------------

  /// Long lists are copied only when they changed: this runs after every event.
  void refresh() {
    situation s = look();
    const bool learned = shown_ != t_.votes.newest().chain;
    const bool changed = learned || s.is != situation_.is || s.current.at != situation_.current.at ||
                         s.hash != situation_.hash || s.holders != situation_.holders;
    if (learned) situation_.newest = *t_.votes.durable().newest;
    shown_ = t_.votes.newest().chain;
    if (s.current.at != situation_.current.at || s.current.round != situation_.current.round || s.is != situation_.is) {
      if (s.is == situation::exchange || s.is == situation::committing) {
        if (follower_.current()) s.current = follower_.current()->who;
      }
      situation_.current = std::move(s.current);
    }
    situation_.is = s.is;
    situation_.hash = s.hash;
    situation_.holders = std::move(s.holders);
    situation_.why = std::move(s.why);
    if (changed) ++situation_.changes;
  }

  [[nodiscard]] situation look() const {
    situation s;
    if (!t_.votes.broken().empty()) {
      s.is = situation::failed;
      s.why = t_.votes.broken();
    } else if (follower_.has_left()) {
      s.is = situation::left;
    } else if (!look_at_attempt(s)) {
      look_at_rest(s);
    }
    return s;
  }

  bool look_at_attempt(situation& s) const {
    if (follower_.adopting()) {
      const detail::adoption& a = *follower_.adopting();
      s.is = situation::adopt;
      s.current.at = a.at;
      s.current.round = a.value.round;
      s.current.parent = a.value.parent;
      s.hash = a.value.state;
      s.holders = a.holders;
      return true;
    }
    if (follower_.current()) {
      s.is = follower_.waits_for_commit() ? situation::committing : situation::exchange;
      s.current.at = follower_.current()->who.at;
      s.current.round = follower_.current()->who.round;
      return true;
    }
    return false;
  }

  void look_at_rest(situation& s) const {
    const bool known = t_.votes.newest().known();
    if (known && !follower_.holds_newest()) {
      s.is = situation::fetch;
      s.hash = t_.votes.durable().newest->state;
      s.holders = follower_.holders();
      if (!s.holders.empty()) return;
      s.why =
          "nobody within reach has the state of round " + std::to_string(t_.votes.newest().round) +
          "; start a peer whose disk has it, or found the run anew from an older round (the program: --run.refound true)";
    }
    if (follower_.leader() == 0 && (!known || t_.now - follower_.leaderless_since() <= t_.settings.silence.floor)) {
      if (!known) s.is = situation::joining;
      if (s.is != situation::fetch) s.why = "looks for the run at " + std::to_string(finder_.addresses()) + " addresses";
      if (!known || s.is == situation::fetch) return;
    }
    const bool done = known && follower_.holds_newest() && samples().complete();  // nothing is left to be decided
    const std::string trouble = done ? std::string{} : no_quorum();
    if (!trouble.empty()) {
      s.is = situation::no_quorum;
      s.why = trouble;
    } else if (known && s.is != situation::fetch) {
      s.is = follower_.waits_for_commit() ? situation::committing
             : follower_.is_ready()       ? situation::gathering
                                          : situation::idle;
      s.why = leader_.active() ? leader_.waiting_for() : follower_.excluded();
    }
  }

  /// Why nothing can be committed; empty where it can.
  [[nodiscard]] std::string no_quorum() const {
    const std::string of = " of " + std::to_string(t_.members().size()) + " members";
    if (leader_.active()) return leader_.stuck() ? leader_.waiting_for() : std::string{};
    if (follower_.leader() == 0) {
      if (t_.now - follower_.leaderless_since() <= t_.settings.silence.floor) return {};
      return "no leader; " + std::to_string(candidate_.answers()) + of +
             " answer. It goes on when more than half are there";
    }
    const detail::heartbeat& beat = follower_.last_beat();
    if (beat.number == 0 || beat.quorum) return {};
    return "the leader reaches " + std::to_string(beat.reachable) + of + ". It goes on when more than half are there";
  }

  /// Nothing is urgent enough to be asked for again at once.
  static constexpr duration shortest_wait = std::chrono::milliseconds{1};

  detail::peer_table t_;
  static constexpr std::size_t most_deferred = 64;  // the rest is said again

  detail::follower follower_;
  detail::evidence evidence_;
  std::vector<std::pair<net::peer_id, detail::message>> deferred_;
  detail::candidate candidate_;
  detail::finder finder_;
  detail::leader leader_;
  situation situation_;
  std::uint64_t shown_ = 0;  ///< chain of situation_.newest
  time_point asked_wake_ = no_deadline;
  bool started_ = false;
};

inline std::vector<std::byte> protocol::record_of(std::uint64_t round, std::uint64_t state) const {
  const durable_record& known = t_.votes.durable();
  durable_record r = fresh_record(known.run, known.self);
  r.samples = known.samples;
  r.newest = known.newest;
  if (!r.newest || r.newest->round != round || r.newest->state != state) {
    r.newest.reset();
    if (follower_.current() && follower_.current()->who.round == round) r.newest = follower_.current()->proposal;
    if (follower_.adopting() && follower_.adopting()->value.round == round) r.newest = follower_.adopting()->value;
    if (!r.newest) return {};
    r.newest->state = state;
    r.samples.apply(*r.newest);
  }
  return encode(r);
}

inline std::string protocol::describe(time_point now) const {
  std::string text = "peer " + std::to_string(t_.self) + ": " + std::string{to_string(situation_.is)};
  if (!situation_.why.empty()) text += " (" + situation_.why + ")";
  text += "\nnewest round " + std::to_string(t_.votes.newest().round) + " with " + std::to_string(t_.members().size()) +
          " members, floor " + std::to_string(t_.votes.durable().floor.term) + "." +
          std::to_string(t_.votes.durable().floor.attempt) + ", leader " + std::to_string(follower_.leader());
  if (leader_.active()) text += "\n  leads: " + leader_.describe(now);
  for (const auto& [id, p] : t_.peers) {
    if (id == t_.self) continue;
    text += "\n  peer " + std::to_string(id) + (p.up ? " up" : " down") + ", heard " +
            std::to_string(seconds(now - p.heard)) + " s ago" + (t_.votes.is_member(id) ? ", member" : "") +
            (p.said && p.said->ready ? ", ready" : "") + (p.pause > 0 ? ", sits out " + std::to_string(p.pause) : "");
  }
  for (std::size_t i = 0; i < reject_reasons; ++i) {
    const auto why = static_cast<reject_reason>(i);
    if (t_.rejected(why) > 0)
      text += "\n  refused, " + std::string{to_string(why)} + ": " + std::to_string(t_.rejected(why));
  }
  return text;
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP

// ---- causeway/membership/refound.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_REFOUND_HPP
#define CAUSEWAY_MEMBERSHIP_REFOUND_HPP

// A new run that goes on from a commit of another, for when too few of its members can ever come back. No quorum decides
// this: a person does, and takes the risk that the others go on too. So it is another run, with another id, and neither can
// mistake the other's messages, records or samples for its own. Its first record names the other's last as its parent.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// What the founder of `run` has to remember: the state of the newest commit that `old` knows, as a round of its own, with
/// `self` as the only member. Every sample that is not in a commit of the old run is there to be trained on; who held it
/// goes for nothing. A vote for a later round is given up: nobody can say whether it was committed. Precondition: `old`
/// knows a commit of another run; `self` was nobody in it.
[[nodiscard]] inline durable_record refounded(const durable_record& old, std::uint64_t run, net::peer_id self) {
  CAUSEWAY_EXPECT(old.newest.has_value() && old.newest->run != run && old.self != self);
  commit_record first;
  first.run = run;
  first.round = old.newest->round + 1;
  first.parent = old.newest->chain();
  first.state = old.newest->state;
  first.members = {self};
  first.returned = old.samples.holders();
  durable_record founded = fresh_record(run, self);
  founded.samples = old.samples;
  founded.samples.apply(first);
  first.ledger = founded.samples.hash();
  founded.newest = std::move(first);
  return founded;
}

/// For the history of the founder, before anything else: a checker takes the record without votes.
[[nodiscard]] inline event refound_event(const durable_record& founded) {
  event e;
  e.what = event::refound;
  e.peer = founded.self;
  e.round = founded.newest->round;
  e.hash = founded.newest->state;
  e.parent = founded.newest->parent;
  e.chain = founded.newest->chain();
  return e;
}

namespace detail {
/// Keeps what is noted; nothing else is asked of it.
struct noting final : effects {
  std::vector<event> noted{};

  void send(net::peer_id, std::vector<std::byte>) override {}
  void dial(const std::string&) override {}
  void drop(net::peer_id, const std::string&) override {}
  bool persist(const durable_record&) override { return true; }
  void wake_at(time_point) override {}
  void note(const event& e) override { noted.push_back(e); }
};
}  // namespace detail

/// What the peer of this record says when it is started again, for the end of its history where it never will be: a process
/// that was killed may not have come to note its last steps, and a run may be founded on one of them.
[[nodiscard]] inline std::vector<event> last_words(const durable_record& record, time_point now) {
  detail::noting notes;
  detail::acceptor{record, notes}.note_boot(now);
  return std::move(notes.noted);
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_REFOUND_HPP

// ---- causeway/io/storage.hpp ----
#ifndef CAUSEWAY_IO_STORAGE_HPP
#define CAUSEWAY_IO_STORAGE_HPP

// What the library needs of a disk, so small that a simulator can stand in for it: whole files, written atomically. A file
// under its final name is either the old one or the complete new one; a writer that fails or dies leaves the old one.

namespace causeway::inline CAUSEWAY_ABI::io {

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
concept Storage = std::movable<S> && requires(S& s, const std::string& path, const byte_producer& producer) {
  { s.write_atomic(path, producer) } -> std::same_as<result<void>>;
  { s.read(path) } -> std::same_as<result<byte_vector>>;
  { s.list(path) } -> std::same_as<result<std::vector<std::string>>>;
  { s.remove(path) } -> std::same_as<result<void>>;
};

/// A producer of bytes that exist already; they must outlive the write.
inline byte_producer produce(std::span<const std::byte> content) {
  return [content](const byte_sink& sink) { return sink(content); };
}

inline byte_producer produce(std::string_view text) { return produce(std::as_bytes(std::span{text.data(), text.size()})); }

/// Any storage, held by value. Copies share the storage. Thread-safe if the storage is.
class any_storage {
 public:
  template <class S>
    requires(!std::same_as<S, any_storage>)
  &&Storage<S> explicit any_storage(S storage) : state_{std::make_shared<model<S>>(std::move(storage))} {}

  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
    return state_->write_atomic(path, producer);
  }
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

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_STORAGE_HPP

// ---- causeway/io/section.hpp ----
#ifndef CAUSEWAY_IO_SECTION_HPP
#define CAUSEWAY_IO_SECTION_HPP

// Named, versioned sections of raw bytes, and how a file of them is written: a header with a checksum of its own and one of
// each section, then the sections, each from a 64-byte boundary. Layout: docs/reference/checkpoint_format.md.
// Little-endian.

namespace causeway::inline CAUSEWAY_ABI::io {

static_assert(std::endian::native == std::endian::little, "section files are little-endian, and so must be the machine");

/// Which run and step a file belongs to, and who wrote it.
struct section_stamp {
  std::uint64_t run_id = 0;
  std::uint64_t step = 0;
  std::uint32_t library_version = CAUSEWAY_VERSION;  ///< filled in by the writer

  friend constexpr bool operator==(const section_stamp&, const section_stamp&) = default;
};

/// A section to be written: owns its bytes, or refers to bytes that outlive it (large ones: parameters, moments).
class section {
 public:
  section(std::string name, std::uint32_t version, byte_vector content)
      : name_{std::move(name)}, version_{version}, content_{std::move(content)} {}
  section(std::string name, std::uint32_t version, std::span<const std::byte> content)
      : name_{std::move(name)}, version_{version}, content_{content} {}

  /// Refers to `values` as they lie in memory.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  static section of(std::string name, std::uint32_t version, std::span<const T> values) {
    return {std::move(name), version, std::as_bytes(values)};
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    if (const auto* own = std::get_if<byte_vector>(&content_)) return *own;
    return *std::get_if<std::span<const std::byte>>(&content_);
  }

 private:
  std::string name_;
  std::uint32_t version_;
  std::variant<byte_vector, std::span<const std::byte>> content_;
};

/// Writes sections one after another into a sink; large ones are passed on without a copy. Reads every byte twice (once for
/// the checksums, which stand in front): the bytes must not change meanwhile. Names must differ and be at most 4,096 bytes.
inline result<void> write_sections(const byte_sink& sink, section_stamp stamp, std::span<const section> sections);

namespace detail {

constexpr std::array<char, 8> section_magic{'C', 'W', 'S', 'E', 'C', 'T', '0', '\n'};
constexpr std::uint32_t section_format = 1;
constexpr std::size_t section_alignment = 64;
constexpr std::size_t longest_section_name = 4096;

struct section_file_head {
  std::array<char, 8> magic = section_magic;
  std::uint32_t format = section_format;
  std::uint32_t library_version = CAUSEWAY_VERSION;
  std::uint64_t run_id = 0;
  std::uint64_t step = 0;
  std::uint64_t file_length = 0;    // what a torn file does not have
  std::uint32_t header_length = 0;  // this head, the table and the header's checksum
  std::uint32_t section_count = 0;
};
static_assert(sizeof(section_file_head) == 48 && std::has_unique_object_representations_v<section_file_head>);

struct section_entry {  // followed by the name, without a terminator
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;
  std::uint32_t version = 0;
  std::uint32_t name_length = 0;
};
static_assert(sizeof(section_entry) == 32 && std::has_unique_object_representations_v<section_entry>);

constexpr std::uint64_t align_section(std::uint64_t offset) noexcept {
  return (offset + section_alignment - 1) / section_alignment * section_alignment;
}

template <class T>
void append_object(byte_vector& out, const T& value) {
  const auto bytes = std::as_bytes(std::span{&value, 1});
  out.insert(out.end(), bytes.begin(), bytes.end());
}

inline byte_vector section_header(const section_stamp& stamp, std::span<const section> sections) {
  section_file_head head{.run_id = stamp.run_id, .step = stamp.step};
  std::size_t length = sizeof head + sizeof(std::uint64_t);
  for (const section& s : sections) length += sizeof(section_entry) + s.name().size();
  head.header_length = static_cast<std::uint32_t>(length);
  head.section_count = static_cast<std::uint32_t>(sections.size());
  head.file_length = length;
  byte_vector table;
  for (const section& s : sections) {
    const std::uint64_t offset = align_section(head.file_length);
    head.file_length = offset + s.bytes().size();
    append_object(table, section_entry{offset, s.bytes().size(), hash_bytes(s.bytes()), s.version(),
                                       static_cast<std::uint32_t>(s.name().size())});
    const auto name = std::as_bytes(std::span{s.name().data(), s.name().size()});
    table.insert(table.end(), name.begin(), name.end());
  }
  byte_vector header;
  append_object(header, head);
  header.insert(header.end(), table.begin(), table.end());
  append_object(header, hash_bytes(header));
  return header;
}

}  // namespace detail

inline result<void> write_sections(const byte_sink& sink, section_stamp stamp, std::span<const section> sections) {
  for (const section& s : sections) {
    const auto same = [&](const section& other) { return other.name() == s.name(); };
    if (s.name().size() > detail::longest_section_name || std::count_if(sections.begin(), sections.end(), same) != 1) {
      return fail(errc::invalid_argument, s.name(), "section names must differ and be at most 4,096 bytes long");
    }
  }
  constexpr std::array<std::byte, detail::section_alignment> zeros{};
  const byte_vector header = detail::section_header(stamp, sections);
  CAUSEWAY_TRY(sink(header));
  std::uint64_t at = header.size();
  for (const section& s : sections) {
    CAUSEWAY_TRY(sink(std::span{zeros}.first(detail::align_section(at) - at)));
    CAUSEWAY_TRY(sink(s.bytes()));
    at = detail::align_section(at) + s.bytes().size();
  }
  return {};
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_SECTION_HPP

// ---- causeway/io/section_file.hpp ----
#ifndef CAUSEWAY_IO_SECTION_FILE_HPP
#define CAUSEWAY_IO_SECTION_FILE_HPP

// Reads a file of sections (io/section.hpp). Nothing is given out before every byte of the file was verified: header and
// sections must fit their checksums, and padding must be zero.

namespace causeway::inline CAUSEWAY_ABI::io {

/// A section that was read and verified. Starts on a 64-byte boundary of the file.
struct section_view {
  std::string_view name;
  std::uint32_t version = 0;
  std::span<const std::byte> bytes;
};

/// A name and the newest version of it that the program can read.
struct wanted_section {
  std::string name;
  std::uint32_t version = 1;
};

/// A verified file in memory. Movable; the views live as long as it does, also after a move.
class section_file {
 public:
  /// Verifies `content`. `name` is for messages. Errors: errc::corrupt (torn, flipped, not such a file) and
  /// errc::version_mismatch (a newer format).
  static result<section_file> parse(byte_vector content, const std::string& name);

  section_file(section_file&&) noexcept = default;  // not copied: the views point into the one content
  section_file& operator=(section_file&&) noexcept = default;

  [[nodiscard]] const section_stamp& stamp() const noexcept { return stamp_; }
  [[nodiscard]] std::span<const section_view> sections() const noexcept { return sections_; }

  /// The section called `name`; errc::not_found lists what there is.
  [[nodiscard]] result<section_view> find(std::string_view name) const;

  /// Fills `values` with the section called `name`; errc::wrong_model if the lengths differ.
  template <class T>
    requires std::is_trivially_copyable_v<T> result<void> copy_to(std::string_view name, std::span<T> values)
  const {
    CAUSEWAY_ASSIGN(const section_view found, find(name));
    if (found.bytes.size() != values.size_bytes()) return wrong_length(name, found.bytes.size(), values.size_bytes());
    if (!values.empty()) std::memcpy(values.data(), found.bytes.data(), found.bytes.size());
    return {};
  }

  /// Checks that the sections are those wanted, in any order, none newer than wanted. Otherwise the error lists both sides:
  /// errc::wrong_model for missing or unknown sections, errc::version_mismatch for newer ones. Older versions pass: who
  /// owns the section migrates it.
  [[nodiscard]] result<void> match(std::span<const wanted_section> wanted) const;

 private:
  section_file() = default;
  [[nodiscard]] error wrong_length(std::string_view name, std::size_t has, std::size_t wants) const;
  [[nodiscard]] std::string listing() const;

  std::string name_;
  byte_vector content_;
  section_stamp stamp_;
  std::vector<section_view> sections_;
};

namespace detail {

/// Walks through a header whose checksum was verified already, and still trusts no length.
class section_cursor {
 public:
  explicit section_cursor(std::span<const std::byte> bytes) noexcept : rest_{bytes} {}

  template <class T>
  bool take(T& value) noexcept {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }
  bool take(std::size_t length, std::string_view& text) noexcept {
    if (rest_.size() < length) return false;
    text = {reinterpret_cast<const char*>(rest_.data()), length};
    rest_ = rest_.subspan(length);
    return true;
  }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

inline bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// The head, once the header's checksum fits.
inline result<section_file_head> verified_head(std::span<const std::byte> content, const std::string& name) {
  section_file_head head;
  const auto torn = [&](const std::string& what) {
    return fail(errc::corrupt, name, what + ". It was torn or damaged: use an older file");
  };
  if (!section_cursor{content}.take(head)) return torn("the file ends within its header");
  if (head.magic != section_magic)
    return fail(errc::corrupt, name, "this is not a Causeway section file, or its start is damaged");
  const std::size_t length = head.header_length;
  if (length < sizeof head + 8 || length > content.size()) return torn("the file ends within its header");
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, content.data() + length - 8, 8);
  const bool sound = checksum == hash_bytes(content.first(length - 8));
  if (sound && head.format != section_format) {  // every format keeps the length's place and the checksum's
    return fail(errc::version_mismatch, name,
                "written in format " + std::to_string(head.format) + " by library version " +
                    std::to_string(head.library_version) + "; this program reads format " + std::to_string(section_format) +
                    ". Use a newer library");
  }
  if (!sound) return torn("the header does not fit its checksum");
  if (head.file_length != content.size()) {
    return torn("the file has " + std::to_string(content.size()) + " bytes of " + std::to_string(head.file_length));
  }
  return head;
}

}  // namespace detail

inline result<section_file> section_file::parse(byte_vector content, const std::string& name) {
  section_file file;
  file.name_ = name;
  file.content_ = std::move(content);
  const std::span<const std::byte> bytes = file.content_;
  CAUSEWAY_ASSIGN(const detail::section_file_head head, detail::verified_head(bytes, name));
  file.stamp_ = {head.run_id, head.step, head.library_version};
  detail::section_cursor cursor{bytes.first(head.header_length - 8).subspan(sizeof head)};
  std::uint64_t at = head.header_length;
  for (std::uint32_t i = 0; i < head.section_count; ++i) {
    detail::section_entry entry;
    section_view view;
    if (!cursor.take(entry) || !cursor.take(entry.name_length, view.name) || entry.offset != detail::align_section(at) ||
        entry.offset > bytes.size() || entry.length > bytes.size() - entry.offset) {
      return fail(errc::corrupt, name, "the table of sections contradicts itself. Use an older file");
    }
    view.version = entry.version;
    view.bytes = bytes.subspan(entry.offset, entry.length);
    if (!detail::all_zero(bytes.subspan(at, entry.offset - at)) || hash_bytes(view.bytes) != entry.checksum) {
      return fail(errc::corrupt, name,
                  "section \"" + std::string{view.name} + "\" does not fit its checksum. Use an older file");
    }
    at = entry.offset + entry.length;
    file.sections_.push_back(view);
  }
  if (!cursor.empty() || at != bytes.size()) {
    return fail(errc::corrupt, name, "the table of sections does not cover the file. Use an older file");
  }
  return result<section_file>{std::move(file)};  // nvcc does not move a local by itself
}

inline std::string section_file::listing() const {
  std::string text;
  for (const section_view& s : sections_) {
    text += (text.empty() ? "" : ", ") + std::string{s.name} + " v" + std::to_string(s.version);
  }
  return text.empty() ? "nothing" : text;
}

inline result<section_view> section_file::find(std::string_view name) const {
  for (const section_view& s : sections_) {
    if (s.name == name) return s;
  }
  return fail(errc::not_found, name_, "has no section \"" + std::string{name} + "\"; it has: " + listing());
}

inline error section_file::wrong_length(std::string_view name, std::size_t has, std::size_t wants) const {
  return fail(errc::wrong_model, name_,
              "section \"" + std::string{name} + "\" has " + std::to_string(has) + " bytes, this model needs " +
                  std::to_string(wants) + ". Use the model options that the file was written with");
}

inline result<void> section_file::match(std::span<const wanted_section> wanted) const {
  bool same = wanted.size() == sections_.size();
  bool newer = false;
  std::string wants;
  for (const wanted_section& w : wanted) {
    wants += (wants.empty() ? "" : ", ") + w.name + " v" + std::to_string(w.version);
    const auto it =
        std::find_if(sections_.begin(), sections_.end(), [&](const section_view& s) { return s.name == w.name; });
    if (it == sections_.end()) same = false;
    if (it != sections_.end() && it->version > w.version) newer = true;
  }
  if (same && !newer) return {};
  const std::string sides = " The file has: " + listing() + ". This program reads: " + (wants.empty() ? "nothing" : wants);
  if (!same) return fail(errc::wrong_model, name_, "written by a trainer of other parts; use the same policies." + sides);
  return fail(errc::version_mismatch, name_, "written by a newer library; use that one." + sides);
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_SECTION_FILE_HPP

// ---- causeway/io/checkpoint.hpp ----
#ifndef CAUSEWAY_IO_CHECKPOINT_HPP
#define CAUSEWAY_IO_CHECKPOINT_HPP

// The checkpoints of one peer in one folder: `step-00001234.ckpt`. A new one is durable before an older one is removed, and
// `keep` generations stay, so that a file which the disk lost still leaves the one before. Only files that were written
// without an error and were not found damaged count as generations. One process per folder.

namespace causeway::inline CAUSEWAY_ABI::io {

/// The file name of a step: eight digits at least, so that names sort like steps for a person.
inline std::string checkpoint_name(std::uint64_t step) {
  const std::string digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits + ".ckpt";
}

/// The step of a file name, if it is one of ours.
inline std::optional<std::uint64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with("step-") || !name.ends_with(".ckpt")) return std::nullopt;
  const std::string_view digits = name.substr(5, name.size() - 10);
  std::uint64_t step = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (checkpoint_name(step) != name) return std::nullopt;  // too many digits, or too few
  return step;
}

/// What `load_newest` found.
struct loaded_checkpoint {
  section_file file;
  std::string note;  ///< empty, or a sentence for the log: which newer files were passed over, and why
};

/// Not safe to share between threads.
template <Storage S>
class checkpoint_directory {
 public:
  explicit checkpoint_directory(S storage, std::string directory, unsigned keep = 2)
      : storage_{std::move(storage)}, directory_{std::move(directory)}, keep_{std::max(keep, 1U)} {}

  /// Writes the checkpoint of `step`, durable on return, then removes what is too old. An error leaves the older ones as
  /// they were: errc::disk_full, errc::io_failed, errc::invalid_argument (two sections of one name). Trouble in removing
  /// older files is no error; they are tried again next time.
  result<void> save(std::uint64_t step, std::span<const section> sections, std::uint64_t run_id = 0) {
    const bool replaces = clean_up(checkpoint_name(step));
    const std::string name = checkpoint_name(step);
    auto written = storage_.write_atomic(path_of(name), [&](const byte_sink& sink) {
      return write_sections(sink, {run_id, step}, sections);
    });
    if (!written) {
      // A write that fails at its very end leaves a file that may be gone after a crash: it must not count, nor be seen by
      // a process that knows nothing of the failure.
      worthless_.insert(name);
      if (!replaces) (void)storage_.remove(path_of(name));
      return written;
    }
    forget(name);
    prune(step);
    return {};
  }

  result<void> save(std::uint64_t step, const std::vector<section>& sections, std::uint64_t run_id = 0) {
    return save(step, std::span<const section>{sections}, run_id);
  }

  /// The newest checkpoint that is whole. errc::not_found if there is none at all; errc::corrupt if none is whole, with
  /// names and reasons.
  result<loaded_checkpoint> load_newest();

  /// The checkpoint of `step`, verified.
  result<section_file> load(std::uint64_t step) { return load_file(checkpoint_name(step)); }

  /// Steps with a file, oldest first; not verified. A folder that is not there has none.
  result<std::vector<std::uint64_t>> steps();

  /// Removes the checkpoints after `step`: for a run that goes back and will write those steps anew.
  result<void> discard_after(std::uint64_t step) {
    CAUSEWAY_ASSIGN(const std::vector<std::uint64_t> all, steps());
    for (const std::uint64_t s : all) {
      if (s > step) {
        CAUSEWAY_TRY(storage_.remove(path_of(checkpoint_name(s))));
        forget(checkpoint_name(s));
      }
    }
    return {};
  }

  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

 private:
  [[nodiscard]] std::string path_of(const std::string& name) const { return directory_ + '/' + name; }

  result<section_file> load_file(const std::string& name) {
    CAUSEWAY_ASSIGN(byte_vector content, storage_.read(path_of(name)));
    return section_file::parse(std::move(content), path_of(name));
  }

  void forget(const std::string& name) {
    worthless_.erase(name);
    unreadable_.erase(name);
  }
  bool clean_up(const std::string& next);
  void prune(std::uint64_t saved);

  S storage_;
  std::string directory_;
  unsigned keep_;
  // Files that do not count as generations.
  std::set<std::string> worthless_;   // torn, or not surely durable: they go with the next save
  std::set<std::string> unreadable_;  // perhaps only now: they go when they are too old
};

template <Storage S>
result<std::vector<std::uint64_t>> checkpoint_directory<S>::steps() {
  auto names = storage_.list(directory_);
  if (!names && names.error().code == errc::not_found) return std::vector<std::uint64_t>{};
  if (!names) return std::move(names).error();
  std::vector<std::uint64_t> found;
  for (const std::string& name : *names) {
    if (const auto step = checkpoint_step(name)) found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

template <Storage S>
result<loaded_checkpoint> checkpoint_directory<S>::load_newest() {
  CAUSEWAY_ASSIGN(std::vector<std::uint64_t> found, steps());
  if (found.empty()) {
    return fail(errc::not_found, directory_,
                "there is no checkpoint here. Start a new run, or give the folder of an old one");
  }
  std::string passed_over;
  for (auto step = found.rbegin(); step != found.rend(); ++step) {
    const std::string name = checkpoint_name(*step);
    auto file = load_file(name);
    if (file) {
      unreadable_.erase(name);
      if (!passed_over.empty()) passed_over = "went back to " + path_of(name) + ", because " + passed_over;
      return loaded_checkpoint{std::move(file).value(), std::move(passed_over)};
    }
    // A file from a newer library is whole: silently going back behind it would lose work.
    if (file.error().code == errc::version_mismatch) return std::move(file).error();
    (file.error().code == errc::corrupt ? worthless_ : unreadable_).insert(name);
    passed_over += (passed_over.empty() ? "" : "; ") + file.error().text();
  }
  return fail(errc::corrupt, directory_,
              "no checkpoint here is whole. Start anew, or fetch the state from another peer: " + passed_over);
}

/// Removes half-written files that a dead process left: they are of no use, and may take the space that the next file
/// needs. Says whether `next` is there already.
template <Storage S>
bool checkpoint_directory<S>::clean_up(const std::string& next) {
  const auto names = storage_.list(directory_);
  if (!names) return names.error().code != errc::not_found;  // it may be there
  for (const std::string& name : *names) {
    if (name.starts_with("step-") && name.ends_with(".tmp")) (void)storage_.remove(path_of(name));
  }
  std::erase_if(worthless_,
                [&](const std::string& name) { return !std::binary_search(names->begin(), names->end(), name); });
  return std::binary_search(names->begin(), names->end(), next);
}

template <Storage S>
void checkpoint_directory<S>::prune(std::uint64_t saved) {
  const auto found = steps();
  if (!found) return;
  unsigned wanted = keep_ - 1;  // beside the one just saved
  for (auto step = found->rbegin(); step != found->rend(); ++step) {
    const std::string name = checkpoint_name(*step);
    if (*step == saved) continue;
    if (wanted == 0 || worthless_.contains(name)) {
      if (storage_.remove(path_of(name))) forget(name);
    } else if (!unreadable_.contains(name)) {
      --wanted;
    }
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_CHECKPOINT_HPP

// ---- causeway/membership/round_store.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP
#define CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP

// The shared state of the newest rounds on this peer's disk: what a vote promises to keep. A file per round, whole or
// absent, as io/checkpoint.hpp makes them.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Not safe to share between threads. `keep` rounds stay: a candidate must never cost the committed round before it.
class round_store {
 public:
  round_store(io::any_storage storage, std::string folder, unsigned keep = 2)
      : files_{std::move(storage), std::move(folder), keep} {}

  /// Durable on return. `parts` are the shared state of `round`, named by `hash`; `record` says what led to it, as an
  /// encoded durable_record, so that a run can be founded anew on this round when later ones are lost. Empty: not known.
  result<void> save(std::uint64_t run, std::uint64_t round, std::uint64_t hash, std::span<const std::span<std::byte>> parts,
                    std::span<const std::byte> record = {}) {
    std::vector<io::section> sections;
    const std::uint64_t name = hash;
    sections.emplace_back("hash", 1, std::as_bytes(std::span{&name, 1}));
    if (!record.empty()) sections.emplace_back("record", 1, record);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sections.emplace_back(part_name(i), 1, std::span<const std::byte>{parts[i]});
    }
    return files_.save(round, sections, run);
  }

  /// Rounds with a file, oldest first; not verified.
  result<std::vector<std::uint64_t>> rounds() { return files_.steps(); }

  /// The records of the stored rounds that have one and are whole, newest first.
  std::vector<durable_record> records() {
    std::vector<durable_record> found;
    auto stored = rounds();
    if (!stored) return found;
    std::reverse(stored->begin(), stored->end());
    for (const std::uint64_t round : *stored) {
      const auto file = files_.load(round);
      if (!file) continue;
      const auto view = file->find("record");
      std::uint64_t name = 0;
      if (!view || !file->copy_to("hash", std::span{&name, 1})) continue;
      auto record = decode_durable_record(view->bytes);
      const bool fits = record && record->newest && record->newest->round == round && record->newest->state == name;
      if (fits) found.push_back(std::move(*record));
    }
    return found;
  }

  /// Puts the state of `round` that is named `hash` into `parts`. errc::corrupt and errc::not_found as io/checkpoint.hpp,
  /// also where another state is stored for the round; errc::wrong_model if the parts have other sizes. On an error the
  /// parts are as they were.
  result<void> load(std::uint64_t round, std::uint64_t hash, std::span<const std::span<std::byte>> parts) {
    CAUSEWAY_ASSIGN(const io::section_file file, files_.load(round));
    std::uint64_t stored = 0;
    CAUSEWAY_TRY(file.copy_to("hash", std::span{&stored, 1}));
    if (stored != hash) return fail(errc::not_found, files_.directory(), "another state of this round is stored");
    std::vector<std::span<const std::byte>> found;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto view = file.find(part_name(i));
      if (!view || view->bytes.size() != parts[i].size()) {
        return fail(errc::wrong_model, files_.directory(),
                    "the stored round is of another model or other policies; use the settings that it was made with, or "
                    "another folder");
      }
      found.push_back(view->bytes);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) std::copy(found[i].begin(), found[i].end(), parts[i].begin());
    return {};
  }

  /// Saves the state named `hash` that another store has, for whichever round, as that of `round` of `run`. Only what is
  /// whole is taken. errc::not_found if it is not there.
  result<void> take_over(round_store& other, std::uint64_t hash, std::uint64_t run, std::uint64_t round) {
    CAUSEWAY_ASSIGN(auto stored, other.rounds());
    std::reverse(stored.begin(), stored.end());
    for (const std::uint64_t candidate : stored) {
      const auto file = other.files_.load(candidate);
      std::uint64_t name = 0;
      if (!file || !file->copy_to("hash", std::span{&name, 1}) || name != hash) continue;
      std::vector<io::section> sections;
      sections.emplace_back("hash", 1, std::as_bytes(std::span{&hash, 1}));
      for (std::size_t i = 0;; ++i) {
        const auto view = file->find(part_name(i));
        if (!view) break;
        sections.emplace_back(part_name(i), 1, std::span<const std::byte>{view->bytes});
      }
      return files_.save(round, sections, run);
    }
    return fail(errc::not_found, other.files_.directory(),
                "the state of round " + std::to_string(round) + " is not stored here");
  }

 private:
  static std::string part_name(std::size_t i) { return "shared." + std::to_string(i); }

  io::checkpoint_directory<io::any_storage> files_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_ROUND_STORE_HPP

// ---- causeway/core/thread_pool.hpp ----
#ifndef CAUSEWAY_CORE_THREAD_POOL_HPP
#define CAUSEWAY_CORE_THREAD_POOL_HPP

// The one thread pool of a process. Work is cut statically by thread index, so a computation's order depends on the number
// of threads and on nothing else. Idle threads spin for about 100 microseconds before they sleep: a sleeping thread takes
// 45 microseconds to wake, which is longer than many kernels.

#include <atomic>
#include <thread>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace causeway::inline CAUSEWAY_ABI {

namespace detail {

inline void relax() noexcept {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
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

/// `size()` threads, the caller's included. One caller at a time: `run` is not re-entrant and not for use from two threads.
class thread_pool {
 public:
  explicit thread_pool(unsigned threads = 1) : shared_{std::make_unique<shared>()}, size_{threads == 0 ? 1 : threads} {
    // Spinning pays only while every thread has a core of its own.
    shared_->spins = size_ <= std::thread::hardware_concurrency() ? 4000 : 0;
    for (unsigned i = 1; i < size_; ++i) others_.emplace_back([s = shared_.get(), i] { work(*s, i); });
  }

  thread_pool(thread_pool&&) noexcept = default;
  thread_pool& operator=(thread_pool&&) = delete;

  ~thread_pool() {
    if (!shared_) return;
    shared_->stop = true;
    publish();
    for (auto& thread : others_) thread.join();
  }

  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /// Calls `f(thread_index)` once on every thread and returns when all have finished. `f` must not throw.
  template <class F>
  void run(F&& f) {
    if (size_ == 1) {
      f(0U);
      return;
    }
    shared& s = *shared_;
    s.object = std::addressof(f);
    s.call = [](const void* object, unsigned index) {
      (*static_cast<std::remove_reference_t<F>*>(const_cast<void*>(object)))(index);
    };
    s.pending.store(size_ - 1, std::memory_order_relaxed);
    publish();
    f(0U);
    while (s.pending.load(std::memory_order_acquire) != 0) wait_for_others(s);
  }

  /// Cuts [0, count) into one contiguous part per thread, at multiples of `grain`, and calls `f(index_range)` on each part
  /// that is not empty. Runs on the caller alone when `count <= grain`.
  template <class F>
  void for_range(std::int64_t count, std::int64_t grain, F&& f) {
    if (count <= 0) return;
    if (size_ == 1 || count <= grain) {
      f(index_range{0, count});
      return;
    }
    run([&](unsigned index) {
      const index_range part = share_of(count, index, size_, grain);
      if (part.size() > 0) f(part);
    });
  }

 private:
  struct shared {
    alignas(64) std::atomic<std::uint32_t> generation{0};
    alignas(64) std::atomic<std::uint32_t> pending{0};
    const void* object = nullptr;
    void (*call)(const void*, unsigned) = nullptr;
    std::atomic<bool> stop{false};
    int spins = 0;
  };

  void publish() {
    shared_->generation.fetch_add(1, std::memory_order_release);
    shared_->generation.notify_all();
  }

  static void wait_for_others(shared& s) {
    for (int i = 0; i < s.spins; ++i) {
      if (s.pending.load(std::memory_order_acquire) == 0) return;
      detail::relax();
    }
    const std::uint32_t left = s.pending.load(std::memory_order_acquire);
    if (left != 0) s.pending.wait(left, std::memory_order_acquire);
  }

  static void work(shared& s, unsigned index) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < s.spins && s.generation.load(std::memory_order_acquire) == seen; ++i) detail::relax();
      s.generation.wait(seen, std::memory_order_acquire);
      seen = s.generation.load(std::memory_order_acquire);
      if (s.stop) return;
      s.call(s.object, index);
      if (s.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) s.pending.notify_one();
    }
  }

  std::unique_ptr<shared> shared_;
  unsigned size_;
  std::vector<std::thread> others_;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_THREAD_POOL_HPP

// ---- causeway/membership/state_image.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP
#define CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP

// The committed state of a peer as memory: a list of parts, seen as one row of bytes and cut into chunks of equal size. The
// hashes of the chunks and the sizes of the parts make the root, which names the state: peers whose roots are equal hold
// the same bytes. Hashes are kept until `touch()`: whoever changes the memory says so. All peers must have the same byte
// order.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Bytes of a chunk: 1,024 of them make 256 MiB, and one crosses a line of 100 Mbit/s in 21 ms.
inline constexpr std::uint32_t default_chunk_bytes = std::uint32_t{256} << 10U;
/// A state has at most this many parts.
inline constexpr std::size_t max_state_parts = 16384;

/// The sizes of a state's parts and how it is cut: equal on peers that can share a run.
struct image_layout {
  std::uint32_t chunk_bytes = default_chunk_bytes;
  std::vector<std::uint64_t> sizes;

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t size : sizes) sum += size;
    return sum;
  }
  [[nodiscard]] std::size_t chunks() const noexcept {
    return static_cast<std::size_t>((bytes() + chunk_bytes - 1) / chunk_bytes);
  }

  friend bool operator==(const image_layout&, const image_layout&) = default;
};

/// The name of a state from its layout and the digest of its chunks' hashes.
[[nodiscard]] inline std::uint64_t state_root(const image_layout& layout, std::uint64_t digest) noexcept {
  hasher h;
  h.add_value(std::uint64_t{layout.chunk_bytes}).add_value(std::uint64_t{layout.sizes.size()});
  return h.add_values(std::span{layout.sizes}).add_value(digest).finish();
}

[[nodiscard]] inline std::uint64_t digest_of(std::span<const std::uint64_t> hashes) noexcept {
  return hash_bytes(std::as_bytes(hashes));
}

/// Success, or errc::wrong_model with the sizes of both sides.
[[nodiscard]] inline result<void> check_layout(const image_layout& ours, const image_layout& theirs);

/// An archive that copies nothing: notes where the memory lies that a `serialize` member names. What it is given must stay
/// where it is, vectors too. Takes numbers, enumerations, strings, vectors of any of these, and types with `serialize`.
/// Types with padding are refused at compile time: the bytes between their members are not part of a state.
class image_collector {
 public:
  template <class... Ts>
  void operator()(Ts&... values) {
    (visit(values), ...);
  }

  template <class T>
  void view(std::span<T> values) {
    static_assert(plain<T>, "a state is made of numbers, enumerations and structures of them without padding");
    parts_.push_back(std::as_writable_bytes(values));
  }

  [[nodiscard]] const std::vector<std::span<std::byte>>& parts() const noexcept { return parts_; }

 private:
  template <class T>
  static constexpr bool plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                                (std::is_floating_point_v<T> || std::has_unique_object_representations_v<T>);

  template <class T>
  void visit(T& value) {
    if constexpr (requires { value.serialize(*this); }) {
      value.serialize(*this);
    } else {
      view(std::span{&value, 1});
    }
  }

  template <class T, class Memory>
  void visit(std::vector<T, Memory>& values) {
    if constexpr (plain<T>) {
      view(std::span{values});
    } else {
      for (T& value : values) visit(value);
    }
  }

  void visit(std::string& text) { view(std::span{text.data(), text.size()}); }

  std::vector<std::span<std::byte>> parts_;
};

/// Not safe to share between threads while hashes are being made: `root` makes them, afterwards everything marked const
/// only reads. Cost of hashing: one pass over the memory, on all threads of the pool.
class state_image {
 public:
  explicit state_image(std::uint32_t chunk_bytes = default_chunk_bytes) : layout_{chunk_bytes, {}} {
    CAUSEWAY_EXPECT(chunk_bytes > 0 && chunk_bytes % 64 == 0);
  }

  /// The memory of these objects, in this order.
  template <class... Ts>
  [[nodiscard]] static state_image of(Ts&... values) {
    image_collector all;
    all(values...);
    state_image image;
    for (const auto part : all.parts()) image.add(part);
    return image;
  }

  /// Appends a part; it must stay where it is.
  void add(std::span<std::byte> part) {
    CAUSEWAY_EXPECT(parts_.size() < max_state_parts);
    starts_.push_back(bytes_);
    parts_.push_back(part);
    layout_.sizes.push_back(part.size());
    bytes_ += part.size();
    touch();
  }

  [[nodiscard]] const image_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::span<const std::span<std::byte>> parts() const noexcept { return parts_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t chunks() const noexcept { return layout_.chunks(); }
  /// The last chunk may be shorter.
  [[nodiscard]] std::size_t chunk_size(std::size_t chunk) const noexcept {
    const std::uint64_t begin = std::uint64_t{chunk} * layout_.chunk_bytes;
    return static_cast<std::size_t>(std::min<std::uint64_t>(layout_.chunk_bytes, bytes_ - begin));
  }

  /// The memory was changed: hashes will be made anew.
  void touch() noexcept { hashed_ = false; }

  /// Names the state. Makes the hashes if the memory was touched.
  [[nodiscard]] std::uint64_t root(thread_pool* pool = nullptr) const {
    (void)hashes(pool);
    return root_;
  }
  [[nodiscard]] const std::vector<std::uint64_t>& hashes(thread_pool* pool = nullptr) const {
    if (!hashed_) make_hashes(pool);
    return hashes_;
  }
  [[nodiscard]] std::uint64_t chunk_hash(std::size_t chunk) const { return hashes()[chunk]; }

  /// Copies a chunk out. Precondition: `out` has chunk_size(chunk) bytes.
  void read(std::size_t chunk, std::span<std::byte> out) const {
    CAUSEWAY_EXPECT(chunk < chunks() && out.size() == chunk_size(chunk));
    for_each_piece(chunk, [&](std::span<std::byte> piece, std::size_t at) {
      std::memcpy(out.data() + at, piece.data(), piece.size());
    });
  }

  /// Puts bytes where a chunk lies; call touch() when all are there. Precondition: `in` has chunk_size(chunk) bytes.
  void write(std::size_t chunk, std::span<const std::byte> in) {
    CAUSEWAY_EXPECT(chunk < chunks() && in.size() == chunk_size(chunk));
    for_each_piece(chunk, [&](std::span<std::byte> piece, std::size_t at) {
      std::memcpy(piece.data(), in.data() + at, piece.size());
    });
  }

 private:
  // Calls f(piece, offset in the chunk) on the pieces of parts that a chunk covers; never on an empty one.
  template <class F>
  void for_each_piece(std::size_t chunk, F&& f) const {
    std::uint64_t at = std::uint64_t{chunk} * layout_.chunk_bytes;
    const std::uint64_t begin = at;
    const std::uint64_t end = begin + chunk_size(chunk);
    auto part = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin()) - 1;
    for (; at < end; ++part) {
      const auto inside = static_cast<std::size_t>(at - starts_[part]);
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(parts_[part].size() - inside, end - at));
      if (length > 0) f(parts_[part].subspan(inside, length), static_cast<std::size_t>(at - begin));
      at += length;
    }
  }

  // How a state is cut into parts must not show in a chunk's hash, so a chunk of several pieces is put together first.
  [[nodiscard]] std::uint64_t hash_chunk(std::size_t chunk) const {
    const std::size_t size = chunk_size(chunk);
    std::uint64_t hash = 0;
    bool whole = false;
    for_each_piece(chunk, [&](std::span<std::byte> piece, std::size_t) {
      if (piece.size() == size) {
        whole = true;
        hash = hash_bytes(piece);
      }
    });
    if (whole) return hash;
    std::vector<std::byte> gathered(size);
    read(chunk, gathered);
    return hash_bytes(gathered);
  }

  void make_hashes(thread_pool* pool) const {
    hashes_.resize(chunks());
    const auto some = [&](index_range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        hashes_[static_cast<std::size_t>(i)] = hash_chunk(static_cast<std::size_t>(i));
      }
    };
    const auto count = static_cast<std::int64_t>(hashes_.size());
    if (pool != nullptr) {
      pool->for_range(count, 1, some);
    } else {
      some({0, count});
    }
    root_ = state_root(layout_, digest_of(hashes_));
    hashed_ = true;
  }

  image_layout layout_;
  std::vector<std::span<std::byte>> parts_;
  std::vector<std::uint64_t> starts_;
  std::uint64_t bytes_ = 0;
  mutable std::vector<std::uint64_t> hashes_;
  mutable std::uint64_t root_ = 0;
  mutable bool hashed_ = false;
};

/// Chunks of another state that wait beside an image until all that differ are there. Memory: the chunks put, no more.
class staging {
 public:
  staging() = default;
  explicit staging(const image_layout& layout) : layout_{layout}, chunks_(layout.chunks()) {}

  /// Keeps a copy of a chunk whose hash was found right.
  void put(std::size_t chunk, std::span<const std::byte> bytes) {
    CAUSEWAY_EXPECT(chunk < chunks_.size() && bytes.size() <= layout_.chunk_bytes);
    if (!chunks_[chunk]) ++count_;
    chunks_[chunk] = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
    std::memcpy(chunks_[chunk].get(), bytes.data(), bytes.size());
  }

  [[nodiscard]] const image_layout& layout() const noexcept { return layout_; }
  [[nodiscard]] bool has(std::size_t chunk) const noexcept { return chunks_[chunk] != nullptr; }
  [[nodiscard]] std::size_t chunks_held() const noexcept { return count_; }

  /// Puts the chunks into `image`, frees them, and makes sure that the image is now the state named `root`.
  /// errc::diverged: it is another one, because its memory was changed since its hashes were made; nothing in it can be
  /// relied on then. Cost: a copy of the chunks put and one pass of hashing.
  result<void> commit(state_image& image, std::uint64_t root, thread_pool* pool = nullptr) {
    CAUSEWAY_EXPECT(image.layout() == layout_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i]) image.write(i, {chunks_[i].get(), image.chunk_size(i)});
      chunks_[i].reset();
    }
    count_ = 0;
    image.touch();
    if (image.root(pool) == root) return {};
    return fail(errc::diverged, "state transfer",
                "the state in memory is not the one that was fetched: it was changed meanwhile; fetch it again");
  }

 private:
  image_layout layout_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t count_ = 0;
};

inline result<void> check_layout(const image_layout& ours, const image_layout& theirs) {
  if (ours == theirs) return {};
  const auto text = [](const image_layout& l) {
    return std::to_string(l.bytes()) + " bytes in " + std::to_string(l.sizes.size()) + " parts, chunks of " +
           std::to_string(l.chunk_bytes);
  };
  std::string message = "the shared state here is " + text(ours) + "; the run's is " + text(theirs);
  for (std::size_t i = 0; i < std::min(ours.sizes.size(), theirs.sizes.size()); ++i) {
    if (ours.sizes[i] == theirs.sizes[i]) continue;
    message += "; part " + std::to_string(i) + " has " + std::to_string(ours.sizes[i]) + " bytes here and " +
               std::to_string(theirs.sizes[i]) + " there";
    break;
  }
  return fail(errc::wrong_model, "state transfer", message + ". Use the model and policies that the run uses");
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_STATE_IMAGE_HPP

// ---- causeway/membership/transfer_options.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_OPTIONS_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_OPTIONS_HPP

// Between the state transfer and whoever drives it: how it is set up, and what it wants done.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Waits are learned (net/deadline.hpp); what stands here are their floors, and their values before anything was learned.
struct transfer_options {
  // A donor: what is on its way and was not acknowledged is memory of the sender.
  std::size_t outstanding_per_peer = std::size_t{8} << 20U;
  std::size_t outstanding_total = std::size_t{64} << 20U;  ///< every peer gets one message all the same
  std::size_t max_queue = 64;                              ///< requests kept per peer; what is asked beyond is dropped
  std::size_t max_peers = 256;                             ///< peers served at once
  std::uint64_t seed = 0;  ///< makes tickets hard to guess: a number that nobody else can know

  // A fetcher.
  unsigned max_window = 32;                          ///< requests out per holder
  duration first_answer = std::chrono::seconds{10};  ///< how long the first holder ever asked may be silent
  net::arrival_options arrival{.floor = std::chrono::milliseconds{500}, .cap = std::chrono::seconds{60}};
  unsigned max_overdue = 8;  ///< when every holder was overdue so often in a row, the transfer has failed
  unsigned max_bad = 2;      ///< wrong chunks or manifests from one holder before it is asked no more
  duration retry = std::chrono::milliseconds{250};  ///< first pause before a holder that is not there yet is asked again
  unsigned max_retries = 8;                         ///< at doubling pauses
  duration lost_after = std::chrono::seconds{10};   ///< without any holder within reach
};

/// What a donor or a fetcher wants done. Called from inside their functions; must not call back into them. The names keep
/// clear of membership::effects, so that one class can be both.
struct transfer_effects {
  virtual ~transfer_effects() = default;
  /// A bulk control message to a peer that is up; lost without notice where the connection breaks.
  virtual void transfer_send(net::peer_id to, std::vector<std::byte> message) = 0;
  /// Call the fetcher's wake then; replaces what was asked for before. no_deadline: never.
  virtual void transfer_wake_at(time_point when) = 0;
  virtual void transfer_log(severity, std::string_view) {}
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_OPTIONS_HPP

// ---- causeway/membership/transfer_wire.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_WIRE_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_WIRE_HPP

// The messages of a state transfer, as control messages of a fabric; their first byte is 0x80 to 0x8F. Every answer with
// content has a ticket, which the receiver gives back: so the sender knows what has arrived, and sends no more than fits.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Which state: the round it was committed in, and its root.
struct state_name {
  std::uint64_t round = 0;
  std::uint64_t root = 0;

  friend bool operator==(const state_name&, const state_name&) = default;
};

enum class transfer_kind : std::uint8_t {
  ask_manifest = 0x80,  ///< what, index: piece 0 is the layout, piece n > 0 the n-th run of chunk hashes
  manifest = 0x81,      ///< what, index, ticket, content
  ask_chunk = 0x82,     ///< what, index
  chunk = 0x83,         ///< what, index, ticket, content
  gone = 0x84,          ///< what, newest: the sender does not have it; the newest round that it offered
  receipt = 0x85,       ///< ticket: this and what was sent before it has arrived
  cancel = 0x86,        ///< what, index: no longer wanted; every_index: nothing of it is
  keep = 0x87,      ///< what, index: it is being fetched, keep it, and the means of rounds from `index` on; every_index: no
                    ///< longer needed
  means = 0x88,     ///< what, content: it is kept; the rounds since, (round, root of its mean)
  ask_time = 0x89,  ///< newest: nanoseconds that the sender needs the next round to be held back for
  time_given = 0x8A,  ///< newest: nanoseconds that it is held back for
};

/// Whether a control message belongs to the state transfer.
[[nodiscard]] inline bool is_transfer_message(std::span<const std::byte> message) noexcept {
  return !message.empty() && (message.front() & std::byte{0xF0}) == std::byte{0x80};
}

inline constexpr std::uint64_t every_index = ~std::uint64_t{0};
/// Set in the round of a state_name that is not a state but the mean that a round exchanged.
inline constexpr std::uint64_t mean_bit = std::uint64_t{1} << 63U;
/// Chunk hashes in one piece of a manifest: 256 KiB of them.
inline constexpr std::size_t hashes_per_piece = 32768;
/// What a message may have beside its content.
inline constexpr std::size_t transfer_overhead = 64;

/// One message; which fields count, `kind` says. `content` is a view into the bytes that were decoded.
struct transfer_message {
  transfer_kind kind = transfer_kind::receipt;
  state_name what{};
  std::uint64_t index = 0;
  std::uint64_t ticket = 0;
  std::uint64_t newest = 0;
  std::span<const std::byte> content{};
};

namespace detail {

// Content is the last field and ends with the message, so that it can be made in place.
struct transfer_fields {
  bool what, index, ticket, newest, content;
};

constexpr transfer_fields fields_of(transfer_kind kind) noexcept {
  switch (kind) {
    case transfer_kind::ask_manifest:
    case transfer_kind::ask_chunk:
    case transfer_kind::cancel: return {true, true, false, false, false};
    case transfer_kind::manifest:
    case transfer_kind::chunk: return {true, true, true, false, true};
    case transfer_kind::gone: return {true, false, false, true, false};
    case transfer_kind::receipt: return {false, false, true, false, false};
    case transfer_kind::keep: return {true, true, false, false, false};
    case transfer_kind::means: return {true, false, false, false, true};
    case transfer_kind::ask_time:
    case transfer_kind::time_given: return {false, false, false, true, false};
  }
  return {};
}

}  // namespace detail

/// The bytes of a message but for its content, and room for `content` bytes behind them.
[[nodiscard]] inline std::vector<std::byte> encode_transfer_head(const transfer_message& m, std::size_t content = 0) {
  const auto has = detail::fields_of(m.kind);
  net::byte_writer out;
  out.put(static_cast<std::uint8_t>(m.kind));
  if (has.what) out.put(m.what.round).put(m.what.root);
  if (has.index) out.put(m.index);
  if (has.ticket) out.put(m.ticket);
  if (has.newest) out.put(m.newest);
  const std::size_t head = out.bytes().size();
  std::vector<std::byte> bytes;
  bytes.reserve(head + content);
  bytes.insert(bytes.end(), out.bytes().begin(), out.bytes().end());
  bytes.resize(head + content);
  return bytes;
}

[[nodiscard]] inline std::vector<std::byte> encode(const transfer_message& m) {
  const auto content = detail::fields_of(m.kind).content ? m.content : std::span<const std::byte>{};
  auto bytes = encode_transfer_head(m, content.size());
  std::copy(content.begin(), content.end(), bytes.end() - static_cast<std::ptrdiff_t>(content.size()));
  return bytes;
}

/// errc::corrupt or errc::too_large for bytes that are no message. Allocates nothing.
[[nodiscard]] inline result<transfer_message> decode_transfer(std::span<const std::byte> bytes) {
  if (!is_transfer_message(bytes) || bytes.front() > std::byte{static_cast<std::uint8_t>(transfer_kind::time_given)}) {
    return fail(errc::corrupt, "state transfer", "a message of an unknown kind");
  }
  net::byte_reader in{bytes};
  transfer_message m;
  m.kind = static_cast<transfer_kind>(in.get<std::uint8_t>());
  const auto has = detail::fields_of(m.kind);
  if (has.what) {
    m.what.round = in.get<std::uint64_t>();
    m.what.root = in.get<std::uint64_t>();
  }
  if (has.index) m.index = in.get<std::uint64_t>();
  if (has.ticket) m.ticket = in.get<std::uint64_t>();
  if (has.newest) m.newest = in.get<std::uint64_t>();
  if (has.content && in.ok()) {
    m.content = bytes.last(in.remaining());
    return m;
  }
  CAUSEWAY_TRY(in.finish("a message of the state transfer"));
  return m;
}

/// The first piece of a manifest: all that the root is made of.
struct manifest_head {
  image_layout layout;
  std::uint64_t digest = 0;

  [[nodiscard]] std::uint64_t root() const noexcept { return state_root(layout, digest); }
};

[[nodiscard]] inline std::vector<std::byte> encode(const manifest_head& head) {
  net::byte_writer out;
  out.put(head.digest).put(head.layout.chunk_bytes).put(static_cast<std::uint32_t>(head.layout.sizes.size()));
  for (const std::uint64_t size : head.layout.sizes) out.put(size);
  return std::move(out).take();
}

[[nodiscard]] inline result<manifest_head> decode_manifest_head(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  manifest_head head;
  head.digest = in.get<std::uint64_t>();
  head.layout.chunk_bytes = in.get<std::uint32_t>();
  const std::size_t count = in.get<std::uint32_t>();
  if (count > max_state_parts || count > in.remaining() / 8 || head.layout.chunk_bytes == 0) in.refuse();
  if (in.ok()) head.layout.sizes.resize(count);
  for (std::uint64_t& size : head.layout.sizes) {
    size = in.get<std::uint64_t>();
    if (size >> 48U != 0) in.refuse();  // so that their sum cannot wrap
  }
  CAUSEWAY_TRY(in.finish("the head of a manifest"));
  return head;
}

/// Piece `index` > 0 of a manifest.
[[nodiscard]] inline std::vector<std::byte> encode_hashes(std::span<const std::uint64_t> all, std::uint64_t index) {
  const std::size_t first = static_cast<std::size_t>(index - 1) * hashes_per_piece;
  net::byte_writer out;
  for (const std::uint64_t hash : all.subspan(first, std::min(hashes_per_piece, all.size() - first))) out.put(hash);
  return std::move(out).take();
}

/// Pieces of a manifest of so many chunks, the head counted.
[[nodiscard]] constexpr std::uint64_t manifest_pieces(std::size_t chunks) noexcept {
  return 1 + (chunks + hashes_per_piece - 1) / hashes_per_piece;
}

static_assert(default_chunk_bytes + transfer_overhead <= net::max_post_bytes);
static_assert(8 * hashes_per_piece + transfer_overhead <= net::max_post_bytes);
static_assert(8 * max_state_parts + transfer_overhead <= net::max_post_bytes);

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_WIRE_HPP

// ---- causeway/membership/transfer_donor.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_DONOR_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_DONOR_HPP

// The giving side of a state transfer: answers requests out of the states that its driver offers. What was sent and not
// acknowledged is bounded for each peer and in all, so that a peer that asks for everything and reads nothing costs little,
// and peers are served in turn. A pure state machine: messages in, messages out.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Thread safety: none; the fabric's lock serves. Cost of a call: at most what the limits let out, a copy of it each.
class donor {
 public:
  /// Copies a chunk into the buffer, which has its size. False: it can no longer be had.
  using chunk_reader = std::function<bool(std::size_t chunk, std::span<std::byte> out)>;

  struct counts {
    std::uint64_t chunks_sent = 0;
    std::uint64_t bytes_sent = 0;  ///< content of chunks and manifests
    std::uint64_t gone_sent = 0;
    std::uint64_t dropped = 0;          ///< requests beyond a limit, or asked twice
    std::uint64_t malformed = 0;        ///< requests for what no state has
    std::uint64_t unknown_tickets = 0;  ///< receipts for what was not sent
  };

  /// `fx` must outlive this object.
  donor(const transfer_options& options, transfer_effects& fx) : options_{options}, fx_{&fx} {}
  donor(const donor&) = delete;
  donor& operator=(const donor&) = delete;

  /// From now on gives the state of `round` to whoever asks; replaces what was offered for it. `image` must be hashed (call
  /// its root before), and stay as it is until withdrawn.
  void offer(std::uint64_t round, const state_image& image) {
    offer(round, image.layout(), image.hashes(), [&image](std::size_t chunk, std::span<std::byte> out) {
      image.read(chunk, out);
      return true;
    });
  }

  /// The same from anywhere, such as a file.
  void offer(std::uint64_t round, image_layout layout, std::vector<std::uint64_t> hashes, chunk_reader reader) {
    withdraw(round);
    CAUSEWAY_EXPECT(hashes.size() == layout.chunks());
    CAUSEWAY_EXPECT(layout.chunk_bytes + transfer_overhead <= net::max_post_bytes);
    const std::uint64_t digest = digest_of(hashes);
    const state_name name{round, state_root(layout, digest)};
    const std::uint64_t bytes = layout.bytes();
    offers_.push_back({name, {std::move(layout), digest}, bytes, std::move(hashes), std::move(reader)});
    if ((round & mean_bit) == 0) newest_ = std::max(newest_, round);
  }

  /// What is offered for `round` is read from elsewhere from now on; the bytes are the same.
  void read_from(std::uint64_t round, chunk_reader reader) {
    const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const offered& o) { return o.name.round == round; });
    if (at != offers_.end()) at->reader = std::move(reader);
  }

  /// The memory behind an offer is about to change. Those who wait for something of it are told that it is gone.
  void withdraw(std::uint64_t round) {
    withdraw_if([&](const offered& o) { return o.name.round == round; });
  }
  void withdraw() {
    withdraw_if([](const offered&) { return true; });
  }

  [[nodiscard]] bool offers(const state_name& name) const { return find(name) != nullptr; }
  /// Precondition: it is offered.
  [[nodiscard]] std::uint64_t bytes_of(const state_name& name) const { return find(name)->bytes; }

  /// While this peer exchanges data its lines are for that: of what others fetch one chunk at a time is let out, and then
  /// none for `rest` times as long as that took to be acknowledged.
  void busy(bool yes, time_point now) {
    if (std::exchange(busy_, yes) == yes) return;
    next_while_busy_ = now + rest * chunk_took_;
    if (!yes) serve(now);
  }
  /// When `wake` is to be called.
  [[nodiscard]] time_point next_wake() const noexcept {
    const bool waits = busy_ && outstanding_ == 0 &&
                       std::any_of(peers_.begin(), peers_.end(), [](const auto& p) { return !p.second.queue.empty(); });
    return waits ? next_while_busy_ : no_deadline;
  }
  void wake(time_point now) { serve(now); }
  [[nodiscard]] const counts& counted() const noexcept { return counts_; }
  /// Content sent and not acknowledged.
  [[nodiscard]] std::size_t outstanding() const noexcept { return outstanding_; }
  [[nodiscard]] std::size_t outstanding(net::peer_id peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? 0 : at->second.outstanding;
  }

  // ---- events -------------------------------------------------------------------------------------------------------

  /// A message of one of the kinds ask_manifest, ask_chunk, receipt and cancel. Others are ignored. errc::protocol for a
  /// request for a piece that the state it names does not have: who knows the name knows how many there are.
  result<void> message(net::peer_id from, const transfer_message& m, time_point now = {}) {
    switch (m.kind) {
      case transfer_kind::ask_manifest:
      case transfer_kind::ask_chunk: CAUSEWAY_TRY(take_request(from, m)); break;
      case transfer_kind::receipt: take_receipt(from, m.ticket, now); break;
      case transfer_kind::cancel: take_cancel(from, m); break;
      default: return {};
    }
    serve(now);
    return {};
  }

  /// Says that a state is not to be had here, or not yet.
  void send_gone(net::peer_id to, const state_name& what) {
    ++counts_.gone_sent;
    fx_->transfer_send(to, encode(transfer_message{.kind = transfer_kind::gone, .what = what, .newest = newest_}));
  }

  /// The connection ended: what was on its way is lost, and forgotten.
  void peer_down(net::peer_id peer, time_point now = {}) {
    const auto at = peers_.find(peer);
    if (at == peers_.end()) return;
    outstanding_ -= at->second.outstanding;
    peers_.erase(at);
    serve(now);
  }

 private:
  struct offered {
    state_name name;
    manifest_head head;
    std::uint64_t bytes;
    std::vector<std::uint64_t> hashes;
    chunk_reader reader;
  };

  struct request {
    transfer_kind kind;
    state_name what;
    std::uint64_t index;

    friend bool operator==(const request&, const request&) = default;
  };

  struct sent {
    std::uint64_t ticket;
    std::size_t bytes;
  };

  struct asking_peer {
    std::deque<request> queue;
    std::deque<sent> unacknowledged;
    std::size_t outstanding = 0;
  };

  [[nodiscard]] const offered* find(const state_name& name) const {
    const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const offered& o) { return o.name == name; });
    return at == offers_.end() ? nullptr : &*at;
  }

  template <class Which>
  void withdraw_if(Which&& which) {
    std::erase_if(offers_, which);
    for (auto& [id, peer] : peers_) drop_lost_requests(id, peer);
  }

  // One `gone` per state, however many requests there were for it.
  void drop_lost_requests(net::peer_id id, asking_peer& peer) {
    std::vector<state_name> told;
    std::erase_if(peer.queue, [&](const request& r) {
      if (find(r.what) != nullptr) return false;
      if (std::find(told.begin(), told.end(), r.what) == told.end()) {
        told.push_back(r.what);
        send_gone(id, r.what);
      }
      return true;
    });
  }

  result<void> take_request(net::peer_id from, const transfer_message& m) {
    const offered* state = find(m.what);
    if (state == nullptr) return send_gone(from, m.what), result<void>{};
    const std::uint64_t end =
        m.kind == transfer_kind::ask_chunk ? state->hashes.size() : manifest_pieces(state->hashes.size());
    if (m.index >= end) {
      ++counts_.malformed;
      return fail(errc::protocol, "state transfer", "asked for a piece that the state it named does not have");
    }
    enqueue(from, {m.kind, m.what, m.index});
    return {};
  }

  void enqueue(net::peer_id from, const request& r) {
    const bool full = peers_.size() >= options_.max_peers && !peers_.contains(from) && !forget_idle_peer();
    if (full) return void(++counts_.dropped);
    auto& queue = peers_[from].queue;
    if (queue.size() >= options_.max_queue || std::find(queue.begin(), queue.end(), r) != queue.end()) {
      return void(++counts_.dropped);
    }
    queue.push_back(r);
  }

  bool forget_idle_peer() {
    const auto idle = [](const auto& entry) { return entry.second.queue.empty() && entry.second.outstanding == 0; };
    const auto at = std::find_if(peers_.begin(), peers_.end(), idle);
    if (at == peers_.end()) return false;
    peers_.erase(at);
    return true;
  }

  // Messages of one connection arrive in order, so one ticket acknowledges all that was sent before it.
  void take_receipt(net::peer_id from, std::uint64_t ticket, time_point now) {
    const auto at = peers_.find(from);
    if (at == peers_.end()) return void(++counts_.unknown_tickets);
    asking_peer& peer = at->second;
    const auto last = std::find_if(peer.unacknowledged.begin(), peer.unacknowledged.end(),
                                   [&](const sent& s) { return s.ticket == ticket; });
    if (last == peer.unacknowledged.end()) return void(++counts_.unknown_tickets);
    for (auto s = peer.unacknowledged.begin(); s != last + 1; ++s) {
      peer.outstanding -= s->bytes;
      outstanding_ -= s->bytes;
    }
    peer.unacknowledged.erase(peer.unacknowledged.begin(), last + 1);
    if (busy_ && outstanding_ == 0 && sent_while_busy_) {
      chunk_took_ = now - *sent_while_busy_;
      next_while_busy_ = now + rest * chunk_took_;
      sent_while_busy_.reset();
    }
  }

  void take_cancel(net::peer_id from, const transfer_message& m) {
    const auto at = peers_.find(from);
    if (at == peers_.end()) return;
    std::erase_if(at->second.queue, [&](const request& r) {
      return r.what == m.what && (m.index == every_index || (r.kind == transfer_kind::ask_chunk && r.index == m.index));
    });
  }

  // One request of each peer in turn, beginning after the one served last, until nobody's next one fits.
  void serve(time_point now) {
    for (bool any = true; any;) {
      any = false;
      auto at = peers_.upper_bound(last_served_);
      for (std::size_t i = 0; i < peers_.size(); ++i, ++at) {
        if (at == peers_.end()) at = peers_.begin();
        if (at->second.queue.empty() || !fits(at->second, now)) continue;
        last_served_ = at->first;
        if (busy_ && at->second.queue.front().kind == transfer_kind::ask_chunk) sent_while_busy_ = now;
        serve_one(at->first, at->second);
        any = true;
      }
    }
  }

  // Nobody is locked out: who has nothing on its way gets one message, whatever the others have.
  [[nodiscard]] bool fits(const asking_peer& peer, time_point now) const {
    const bool chunk = peer.queue.front().kind == transfer_kind::ask_chunk;
    if (busy_ && chunk && (outstanding_ > 0 || now < next_while_busy_)) return false;
    if (peer.outstanding == 0) return true;
    const std::size_t size = answer_size(peer.queue.front());
    return peer.outstanding + size <= options_.outstanding_per_peer && outstanding_ + size <= options_.outstanding_total;
  }

  [[nodiscard]] std::size_t answer_size(const request& r) const {
    const offered& state = *find(r.what);
    if (r.kind == transfer_kind::ask_chunk) {
      const std::uint64_t most = state.head.layout.chunk_bytes;
      return static_cast<std::size_t>(std::min(most, state.bytes - r.index * most));
    }
    if (r.index == 0) return 16 + 8 * state.head.layout.sizes.size();
    return 8 * std::min<std::size_t>(hashes_per_piece,
                                     state.hashes.size() - static_cast<std::size_t>(r.index - 1) * hashes_per_piece);
  }

  void serve_one(net::peer_id to, asking_peer& peer) {
    const request r = peer.queue.front();
    peer.queue.pop_front();
    const offered& state = *find(r.what);
    const std::size_t size = answer_size(r);
    const std::uint64_t ticket = causeway::detail::scramble(options_.seed ^ ++serial_);
    const bool chunk = r.kind == transfer_kind::ask_chunk;
    transfer_message answer{
        .kind = chunk ? transfer_kind::chunk : transfer_kind::manifest, .what = r.what, .index = r.index, .ticket = ticket};
    std::vector<std::byte> bytes;
    if (chunk) {
      bytes = encode_transfer_head(answer, size);
      if (!state.reader(static_cast<std::size_t>(r.index), std::span{bytes}.last(size))) return send_gone(to, r.what);
    } else {
      const auto content = r.index == 0 ? encode(state.head) : encode_hashes(state.hashes, r.index);
      answer.content = content;
      bytes = encode(answer);
    }
    peer.unacknowledged.push_back({ticket, size});
    peer.outstanding += size;
    outstanding_ += size;
    counts_.bytes_sent += size;
    if (chunk) ++counts_.chunks_sent;
    fx_->transfer_send(to, std::move(bytes));
  }

  transfer_options options_;
  transfer_effects* fx_;
  std::vector<offered> offers_;
  std::map<net::peer_id, asking_peer> peers_;
  std::size_t outstanding_ = 0;
  std::uint64_t newest_ = 0;
  std::uint64_t serial_ = 0;
  net::peer_id last_served_ = 0;
  static constexpr duration::rep rest = 19;  // a twentieth of a line that others need
  bool busy_ = false;
  time_point next_while_busy_;
  duration chunk_took_ = std::chrono::milliseconds{16};
  std::optional<time_point> sent_while_busy_;
  counts counts_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_DONOR_HPP

// ---- causeway/membership/transfer_catch_up.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_CATCH_UP_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_CATCH_UP_HPP

// For transfers that take longer than a round. The giving side keeps a copy of the state that is being fetched, and what
// the rounds since have exchanged: the mean of each. The taking side, once it holds the old state, does those rounds again
// from their means. Both are known by the pair (round, root), as states are, and travel as they do.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Bytes beside the memory that they are a copy of. Immutable once made.
struct kept_bytes {
  image_layout layout;
  std::vector<std::uint64_t> hashes;
  std::vector<std::byte> memory;

  /// Precondition: `image` is hashed. Cost: one copy of it.
  [[nodiscard]] static std::shared_ptr<const kept_bytes> copy_of(const state_image& image) {
    auto copy = std::make_shared<kept_bytes>(kept_bytes{image.layout(), image.hashes(), {}});
    copy->memory.resize(image.bytes());
    for (std::size_t i = 0; i < image.chunks(); ++i) {
      const std::size_t at = i * image.layout().chunk_bytes;
      image.read(i, std::span{copy->memory}.subspan(at, image.chunk_size(i)));
    }
    return copy;
  }

  [[nodiscard]] std::uint64_t root() const { return state_root(layout, digest_of(hashes)); }

  [[nodiscard]] static donor::chunk_reader reader(std::shared_ptr<const kept_bytes> from) {
    return [from = std::move(from)](std::size_t chunk, std::span<std::byte> out) {
      std::memcpy(out.data(), from->memory.data() + chunk * from->layout.chunk_bytes, out.size());
      return true;
    };
  }
};

/// The giving side. Memory: at most two copies of the state, and as much again for the means of rounds: where these are
/// more than a state, whoever fetches it cannot catch up, and it is given up. Thread safety: none; the fabric's lock
/// serves.
class kept_states {
 public:
  /// Both must outlive this object.
  kept_states(donor& giving, transfer_effects& fx) : giving_{&giving}, fx_{&fx} {}

  /// A message of the kind keep.
  void message(net::peer_id from, const transfer_message& m) {
    if (m.index == every_index) return release(from, m.what);
    if (!note_user(from, m.what)) {
      if (!giving_->offers(m.what)) giving_->send_gone(from, m.what);
      return;  // else it can be had as long as it is offered
    }
    const auto list = encode_means(m.index);
    fx_->transfer_send(from, encode(transfer_message{.kind = transfer_kind::means, .what = m.what, .content = list}));
  }

  void peer_down(net::peer_id peer) {
    for (auto& [round, s] : states_) s.users.erase(peer);
    tidy();
  }

  /// Whether the means of rounds are to be added.
  [[nodiscard]] bool any() const noexcept { return !states_.empty(); }

  /// Whether the state of `round`, whose memory is about to change, is to be copied first: see copied.
  [[nodiscard]] bool needs_copy(std::uint64_t round) const {
    const auto at = states_.find(round);
    return at != states_.end() && !at->second.bytes;
  }
  /// The copy serves from now on.
  void copied(std::uint64_t round, std::shared_ptr<const kept_bytes> bytes) {
    const auto at = states_.find(round);
    if (at == states_.end() || at->second.name.root != bytes->root()) return;
    giving_->read_from(round, kept_bytes::reader(bytes));
    at->second.bytes = std::move(bytes);
  }
  /// Whether a copy of it is given away, so that its offer need not be withdrawn with the memory.
  [[nodiscard]] bool has_copy(std::uint64_t round) const {
    const auto at = states_.find(round);
    return at != states_.end() && at->second.bytes;
  }

  /// The memory of the state of `round` is no longer what it was: without a copy it is not kept any more.
  void withdrawn(std::uint64_t round) {
    if (!needs_copy(round)) return;
    states_.erase(round);
    tidy();
  }

  /// `round` is committed, and this is the mean that made it out of the round before; nullptr: nothing was exchanged, the
  /// state is that of the round before.
  void add_mean(std::uint64_t round, std::shared_ptr<const kept_bytes> mean) {
    if (!any() || round < next_) return;
    if (round > next_) return clear();  // one is missing: nobody can go on from here
    const std::uint64_t size = mean ? mean->memory.size() : 0;
    if (mean) giving_->offer(round | mean_bit, mean->layout, mean->hashes, kept_bytes::reader(mean));
    means_.push_back({next_++, mean ? mean->root() : 0, size});
    bytes_ += size;
    if (bytes_ > most_bytes()) clear();
  }

  /// What is kept is of no use any more.
  void clear() {
    for (auto& [round, s] : states_) s.users.clear();
    tidy();
  }

 private:
  static constexpr std::size_t most_states = 2;

  struct kept_state {
    state_name name;
    std::uint64_t size = 0;
    std::set<net::peer_id> users;
    std::shared_ptr<const kept_bytes> bytes;  // none while the memory of the state itself serves
  };
  struct kept_mean {
    std::uint64_t round;
    std::uint64_t root;
    std::uint64_t bytes;
  };

  bool note_user(net::peer_id from, const state_name& what) {
    const auto at = states_.find(what.round);
    if (at != states_.end() && at->second.name == what) at->second.users.insert(from);
    if (at != states_.end()) return at->second.name == what;
    const bool next_in_line = states_.empty() || what.round + 1 == next_;
    if (!giving_->offers(what) || states_.size() >= most_states || !next_in_line) return false;
    if (states_.empty()) next_ = what.round + 1;
    states_[what.round] = {what, giving_->bytes_of(what), {from}, nullptr};
    return true;
  }

  void release(net::peer_id from, const state_name& what) {
    const auto at = states_.find(what.round);
    if (at == states_.end() || at->second.name != what) return;
    at->second.users.erase(from);
    tidy();
  }

  // Drops states without users, and means that no state needs.
  void tidy() {
    for (auto at = states_.begin(); at != states_.end();) {
      const auto here = at++;
      if (!here->second.users.empty()) continue;
      if (here->second.bytes) giving_->withdraw(here->first);
      states_.erase(here);
    }
    while (!means_.empty() && (states_.empty() || means_.front().round <= states_.begin()->first)) {
      giving_->withdraw(means_.front().round | mean_bit);
      bytes_ -= means_.front().bytes;
      means_.pop_front();
    }
  }

  [[nodiscard]] std::uint64_t most_bytes() const {
    std::uint64_t most = 0;
    for (const auto& [round, s] : states_) most = std::max(most, s.size);
    return most;
  }

  [[nodiscard]] std::vector<std::byte> encode_means(std::uint64_t from) const {
    net::byte_writer out;
    for (const kept_mean& m : means_) {
      if (m.round >= from) out.put(m.round).put(m.root);
    }
    return std::move(out).take();
  }

  donor* giving_;
  transfer_effects* fx_;
  std::map<std::uint64_t, kept_state> states_;
  std::deque<kept_mean> means_;  // of the rounds after the oldest state, without a gap
  std::uint64_t next_ = 0;       // the round whose mean comes next
  std::uint64_t bytes_ = 0;      // of the means
};

/// The taking side: whom a state is kept by, and which means there are. Thread safety: none; the fabric's lock serves.
class kept_for_us {
 public:
  explicit kept_for_us(transfer_effects& fx) : fx_{&fx} {}

  /// Asks `holders` to keep `what` while it is fetched from here.
  void begin(const state_name& what, std::span<const net::peer_id> holders) {
    end();
    base_ = what;
    for (const net::peer_id id : holders) send(id, what.round + 1);
  }
  /// Asks for the means of the rounds from `round` on.
  void ask(std::uint64_t round) {
    answered_ = false;
    for (const net::peer_id id : keepers_) send(id, round);
  }
  /// They need not keep it any more.
  void end() {
    for (const net::peer_id id : std::exchange(keepers_, {})) send(id, every_index);
    roots_.clear();
    answered_ = false;
  }

  /// A message of the kinds means and gone.
  void message(net::peer_id from, const transfer_message& m) {
    if (m.what != base_) return;
    if (m.kind == transfer_kind::gone) return void(keepers_.erase(from));
    if (m.kind != transfer_kind::means || m.content.size() % 16 != 0) return;
    keepers_.insert(from);
    answered_ = true;
    net::byte_reader in{m.content};
    while (in.remaining() > 0 && roots_.size() < most_rounds) {
      const auto round = in.get<std::uint64_t>();
      roots_.insert_or_assign(round, in.get<std::uint64_t>());
    }
  }
  void peer_down(net::peer_id peer) { keepers_.erase(peer); }

  [[nodiscard]] const state_name& base() const noexcept { return base_; }
  /// Somebody keeps it.
  [[nodiscard]] bool kept() const noexcept { return !keepers_.empty(); }
  [[nodiscard]] std::vector<net::peer_id> keepers() const { return {keepers_.begin(), keepers_.end()}; }
  /// Whether somebody answered since the last `ask`.
  [[nodiscard]] bool answered() const noexcept { return answered_; }
  /// The root of a round's mean; 0: the round exchanged nothing. None: not heard of.
  [[nodiscard]] std::optional<std::uint64_t> root_of(std::uint64_t round) const {
    const auto at = roots_.find(round);
    return at == roots_.end() ? std::nullopt : std::optional{at->second};
  }

 private:
  static constexpr std::size_t most_rounds = 65536;  // what a peer may make us remember

  void send(net::peer_id to, std::uint64_t index) {
    fx_->transfer_send(to, encode(transfer_message{.kind = transfer_kind::keep, .what = base_, .index = index}));
  }

  transfer_effects* fx_;
  state_name base_;
  std::set<net::peer_id> keepers_;
  std::map<std::uint64_t, std::uint64_t> roots_;
  bool answered_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_CATCH_UP_HPP

// ---- causeway/membership/transfer_holder.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDER_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDER_HPP

// What a fetcher knows about one holder of the state it wants: what was asked of it, how quickly it answers, and how far it
// can be relied on. Requests are answered in order, so a holder is overdue when nothing at all came from it for too long.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// How many requests to keep out at one holder, and how long it may be silent. With n requests out, an answer that takes t
/// tells a rate of n / t; that many in the time of the quickest answer fill the line (Little's law). The window is twice
/// that and one more, so it doubles per trip until answers begin to queue, and little is lost when the holder turns slow.
class transfer_pace {
 public:
  static constexpr unsigned first_window = 4;
  static constexpr unsigned least_window = 2;  // one on the line while the next is asked for

  explicit transfer_pace(const transfer_options& options) : most_{options.max_window}, gaps_{options.arrival} {}

  /// A chunk came `gap` after the holder could begin with it.
  void arrived(duration gap) noexcept { gaps_.observe(gap); }

  /// It came `latency` after it was asked for as the last of `out` requests.
  void answered(duration latency, unsigned out) noexcept {
    quickest_ = quickest_ ? std::min(*quickest_, latency) : latency;
    const double share = latency > duration{0} ? seconds(*quickest_) / seconds(latency) : 1.0;
    const auto target = static_cast<unsigned>(std::ceil(2.0 * out * share)) + 1;
    window_ = std::clamp(target, std::min(least_window, most_), most_);
  }

  /// Nothing came for so long.
  void overdue(duration waited) noexcept {
    gaps_.overdue(waited);
    window_ = 1;
  }

  void reconnected() noexcept {
    window_ = std::min(first_window, most_);
    quickest_.reset();
  }

  [[nodiscard]] unsigned window() const noexcept { return window_; }
  [[nodiscard]] bool known() const noexcept { return gaps_.count() > 0; }
  [[nodiscard]] duration patience() const noexcept { return gaps_.patience(); }
  /// How long until a request that is made now, behind `ahead` others, is answered.
  [[nodiscard]] duration answer_in(std::size_t ahead) const noexcept {
    const duration queued = gaps_.mean() * static_cast<duration::rep>(ahead + 1);
    return std::max(queued, quickest_.value_or(queued));
  }
  [[nodiscard]] duration gap() const noexcept { return gaps_.mean(); }

 private:
  unsigned most_;
  unsigned window_ = std::min(first_window, most_);
  net::arrival_statistics gaps_;
  std::optional<duration> quickest_;
};

/// One holder. Requests are named by their index; the high bit marks pieces of the manifest.
struct transfer_holder {
  static constexpr std::uint64_t manifest_bit = std::uint64_t{1} << 63U;

  enum class standing : std::uint8_t {
    active,  ///< waited for
    late,    ///< overdue: asked elsewhere, but still welcome
    lost,    ///< overdue twice, or no longer needed: may be asked here again
  };
  struct request {
    time_point sent;
    std::uint64_t serial = 0;  ///< order of asking
    unsigned out = 0;          ///< requests waited for, this one counted
    standing at = standing::active;
    bool again = false;  ///< asked twice: which of the two is answered cannot be told
  };

  transfer_holder(net::peer_id peer, const transfer_options& options) : id{peer}, pace{options} {}

  net::peer_id id;
  transfer_pace pace;
  std::map<std::uint64_t, request> asked;
  std::vector<std::uint64_t> bad_chunks;
  time_point waiting_since;  ///< of the first active request, the last arrival or the last time it was overdue
  time_point not_before;     ///< after it said that it does not have the state yet
  unsigned active = 0;       ///< requests waited for
  unsigned overdue = 0;      ///< in a row
  unsigned bad = 0;          ///< wrong chunks and manifests
  unsigned retries = 0;
  std::uint64_t bytes = 0;  ///< content received and used
  bool up = false;
  bool listed = false;
  bool gone = false;  ///< said that it does not have the state any more
  bool banned = false;

  /// Can be asked, now or later, if its connection stands.
  [[nodiscard]] bool eligible() const noexcept { return listed && !gone && !banned; }
  [[nodiscard]] bool usable(time_point now) const noexcept { return eligible() && up && not_before <= now; }
  [[nodiscard]] bool waited_for() const noexcept {
    return std::any_of(asked.begin(), asked.end(), [](const auto& r) { return r.second.at != standing::lost; });
  }
  /// Whether asking for `key` would only repeat what is on its way.
  [[nodiscard]] bool expects(std::uint64_t key) const {
    const auto at = asked.find(key);
    return at != asked.end() && at->second.at != standing::lost;
  }
  /// 1 for the request that is answered next.
  [[nodiscard]] std::ptrdiff_t place_of(const request& r) const {
    return 1 + std::count_if(asked.begin(), asked.end(), [&](const auto& entry) {
             return entry.second.at == standing::active && entry.second.serial < r.serial;
           });
  }
  [[nodiscard]] bool gave_bad(std::uint64_t chunk) const {
    return std::find(bad_chunks.begin(), bad_chunks.end(), chunk) != bad_chunks.end();
  }

  void note_asked(std::uint64_t key, std::uint64_t serial, time_point now) {
    if (!waited_for()) waiting_since = now;
    const bool again = asked.contains(key);
    ++active;
    asked[key] = {now, serial, active, standing::active, again};
  }

  struct answer {
    bool active = false;  ///< to a request that was waited for
    duration gap{0};      ///< since the holder could begin with it
  };

  /// An answer came. None: it was not asked for.
  std::optional<answer> note_answer(std::uint64_t key, time_point now) {
    const auto at = asked.find(key);
    if (at == asked.end()) return std::nullopt;
    const request r = at->second;
    asked.erase(at);
    if (r.at == standing::active) --active;
    const duration gap = now - std::max(waiting_since, r.sent);
    if ((key & manifest_bit) == 0) {  // pieces of the manifest have other sizes: they say nothing about chunks
      pace.arrived(gap);
      if (!r.again) pace.answered(now - r.sent, r.out);
    }
    waiting_since = now;
    overdue = 0;
    return answer{r.at == standing::active, gap};
  }

  /// The connection ended: nothing that was asked for will come.
  void disconnected() {
    asked.clear();
    active = 0;
    up = false;
    overdue = 0;
    not_before = {};
    pace.reconnected();
  }

  /// No longer waited for here.
  void forget(std::uint64_t key) {
    const auto at = asked.find(key);
    if (at == asked.end()) return;
    if (at->second.at == standing::active) --active;
    at->second.at = standing::lost;
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDER_HPP

// ---- causeway/membership/transfer_plan.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_PLAN_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_PLAN_HPP

// Which chunks of a wanted state are still to be had, and which of them nobody is being asked for. A missing chunk is free,
// or somebody is being asked for it, or both for a moment when an overdue request counts again.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Cost of a call: O(1), but for `take`, which looks past the chunks that do not suit.
class transfer_plan {
 public:
  transfer_plan() = default;

  /// All chunks whose hashes differ are missing.
  transfer_plan(const std::vector<std::uint64_t>& local, const std::vector<std::uint64_t>& wanted)
      : chunks_(wanted.size()) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (local[i] == wanted[i]) continue;
      chunks_[i] = {.missing = true, .free = true, .askers = 0};
      free_.push_back(i);
    }
    missing_ = free_.size();
  }

  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }
  [[nodiscard]] bool is_missing(std::uint64_t chunk) const noexcept { return chunks_[chunk].missing; }
  [[nodiscard]] unsigned askers(std::uint64_t chunk) const noexcept { return chunks_[chunk].askers; }

  /// The first free chunk that `suits`; it is no longer free.
  template <class Suits>
  std::optional<std::uint64_t> take(Suits&& suits) {
    for (auto at = free_.begin(); at != free_.end();) {
      const std::uint64_t chunk = *at;
      if (chunks_[chunk].missing && !suits(chunk)) {
        ++at;
        continue;
      }
      at = free_.erase(at);
      chunks_[chunk].free = false;
      if (chunks_[chunk].missing) return chunk;
    }
    return std::nullopt;
  }

  void asked(std::uint64_t chunk) noexcept { ++chunks_[chunk].askers; }

  /// Somebody is no longer waited for; a missing chunk that nobody is waited for becomes free, ahead of all others.
  void given_up(std::uint64_t chunk) {
    state& c = chunks_[chunk];
    if (c.askers > 0) --c.askers;
    if (c.askers > 0 || c.free || !c.missing) return;
    c.free = true;
    free_.push_front(chunk);
  }

  void done(std::uint64_t chunk) noexcept {
    if (chunks_[chunk].missing) --missing_;
    chunks_[chunk].missing = false;
  }

 private:
  struct state {
    bool missing = false;
    bool free = false;
    std::uint16_t askers = 0;
  };

  std::vector<state> chunks_;
  std::deque<std::uint64_t> free_;
  std::size_t missing_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_PLAN_HPP

// ---- causeway/membership/transfer_holders.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDERS_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDERS_HPP

// All peers that a fetcher is connected with or was told of, and the questions about them together: who is left, who is
// overdue next, and who could bring sooner what another was asked for.

namespace causeway::inline CAUSEWAY_ABI::membership {

class transfer_holders {
 public:
  /// What is left to hope for.
  struct prospects {
    bool eligible = false;      ///< somebody may have the state
    bool within_reach = false;  ///< of those, somebody is connected
    bool answers = false;       ///< of those, somebody was not overdue too often
  };

  explicit transfer_holders(const transfer_options& options) : options_{options}, gaps_{options.arrival} {}

  [[nodiscard]] auto begin() noexcept { return all_.begin(); }
  [[nodiscard]] auto end() noexcept { return all_.end(); }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }

  transfer_holder& known(net::peer_id peer) { return all_.try_emplace(peer, peer, options_).first->second; }
  [[nodiscard]] transfer_holder* find(net::peer_id peer) {
    const auto at = all_.find(peer);
    return at == all_.end() ? nullptr : &at->second;
  }
  void erase(net::peer_id peer) { all_.erase(peer); }

  /// For the next fetch: who is connected stays known, and nothing else.
  void begin_anew() {
    for (auto& [id, h] : all_) {
      const bool up = h.up;
      h = transfer_holder{id, options_};
      h.up = up;
    }
  }

  [[nodiscard]] prospects outlook() const {
    prospects p;
    for (const auto& [id, h] : all_) {
      p.eligible |= h.eligible();
      p.within_reach |= h.eligible() && h.up;
      p.answers |= h.eligible() && h.up && h.overdue < options_.max_overdue;
    }
    return p;
  }

  /// Why there is nobody left to ask for `round`.
  [[nodiscard]] error none_left(std::uint64_t round, std::uint64_t newest_seen) const {
    const std::string name = "round " + std::to_string(round);
    if (any_listed(&transfer_holder::gone)) {
      return fail(errc::not_found, "state transfer",
                  "the state of " + name + " is gone; the newest round heard of is " + std::to_string(newest_seen));
    }
    if (any_listed(&transfer_holder::banned)) {
      return fail(errc::corrupt, "state transfer", "all holders of " + name + " sent bytes that do not fit its hash");
    }
    return fail(errc::peer_lost, "state transfer", "no holder of " + name + " is within reach");
  }

  template <class F>
  [[nodiscard]] bool any_other_usable(const transfer_holder& h, time_point now, F&& also) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& entry) {
      return entry.first != h.id && entry.second.usable(now) && also(entry.second);
    });
  }

  /// Who is most likely to answer; nullptr: nobody can be asked now.
  [[nodiscard]] transfer_holder* best(time_point now) {
    const auto rank = [](const transfer_holder& h) { return std::pair{h.overdue, h.bad}; };
    transfer_holder* found = nullptr;
    for (auto& [id, h] : all_) {
      if (h.usable(now) && (found == nullptr || rank(h) < rank(*found))) found = &h;
    }
    return found;
  }

  // ---- times --------------------------------------------------------------------------------------------------------

  /// Some holder's chunk came so long after the one before.
  void observe(duration gap) noexcept { gaps_.observe(gap); }

  /// When a holder that is waited for is overdue.
  [[nodiscard]] time_point deadline(const transfer_holder& h) const { return h.waiting_since + patience(h); }

  /// When somebody is overdue or may be asked again.
  [[nodiscard]] time_point next_deadline(time_point now) const {
    time_point next = no_deadline;
    for (const auto& [id, h] : all_) {
      if (!h.eligible() || !h.up) continue;
      if (h.waited_for()) next = std::min(next, deadline(h));
      if (h.not_before > now) next = std::min(next, h.not_before);
    }
    return next;
  }

  /// When nothing is left to ask for, a holder with room takes over what a slower one would bring later than it: which
  /// chunk, if any. Cost: O(r^2) in requests out.
  [[nodiscard]] std::optional<std::uint64_t> worth_asking_twice(const transfer_holder& h, const transfer_plan& plan,
                                                                time_point now) const {
    if (!h.pace.known() || h.overdue > 0) return std::nullopt;
    std::optional<std::uint64_t> last;
    time_point latest = now + h.pace.answer_in(h.active) * 5 / 4;  // a quarter more: it costs bytes
    for (const auto& [id, other] : all_) {
      if (id == h.id || other.active == 0) continue;
      for (const auto& [key, r] : other.asked) {
        if (r.at != transfer_holder::standing::active || (key & transfer_holder::manifest_bit) != 0) continue;
        if (plan.askers(key) > 1 || h.expects(key) || h.gave_bad(key)) continue;
        const time_point comes = comes_at(other, r);
        if (comes <= latest) continue;
        latest = comes;
        last = key;
      }
    }
    return last;
  }

 private:
  [[nodiscard]] bool any_listed(bool transfer_holder::*what) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const auto& entry) { return entry.second.listed && entry.second.*what; });
  }

  // Before a holder's first chunk, the chunks of others tell what to expect of it.
  [[nodiscard]] duration patience(const transfer_holder& h) const {
    if (h.pace.known()) return h.pace.patience();
    if (gaps_.count() == 0) return options_.first_answer;
    return std::min(gaps_.patience() * 2, options_.first_answer);
  }

  [[nodiscard]] time_point comes_at(const transfer_holder& h, const transfer_holder::request& r) const {
    return h.pace.known() ? h.waiting_since + h.pace.gap() * h.place_of(r) : deadline(h);
  }

  transfer_options options_;
  std::map<net::peer_id, transfer_holder> all_;
  net::arrival_statistics gaps_;  // between chunks, of all holders
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDERS_HPP

// ---- causeway/membership/transfer_manifest.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_MANIFEST_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_MANIFEST_HPP

// Puts a manifest together, piece by piece from one holder, and believes it only when it gives the wanted root. Allocates
// by the layout of the state here, never by what a message claims.

namespace causeway::inline CAUSEWAY_ABI::membership {

class manifest_assembler {
 public:
  enum class outcome : std::uint8_t {
    more,      ///< ask for next_piece()
    complete,  ///< hashes() are those of the wanted state
    bad,       ///< a piece that belongs to no manifest of this root; begins anew
    foreign,   ///< the wanted state has another layout than the one here: see foreign_layout
  };

  manifest_assembler() = default;
  manifest_assembler(const image_layout& local, std::uint64_t root) : local_{local}, root_{root} {}

  [[nodiscard]] bool complete() const noexcept { return head_ && next_ == pieces(); }
  [[nodiscard]] std::uint64_t next_piece() const noexcept { return next_; }
  /// Pieces below this one may be asked for: the next two, so that a small manifest costs one trip there and back.
  [[nodiscard]] std::uint64_t ask_before() const noexcept { return std::min(next_ + 2, pieces()); }
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const noexcept { return hashes_; }
  /// errc::wrong_model with both layouts.
  [[nodiscard]] result<void> foreign_layout() const { return check_layout(local_, head_->layout); }

  /// Another holder is asked now: pieces of different holders are never mixed, so that it is clear who sent a wrong one.
  void restart() {
    hashes_.clear();
    next_ = head_ ? 1 : 0;  // the head was found right by itself
  }

  /// Piece next_piece().
  outcome take(std::span<const std::byte> content) {
    const outcome how = next_ == 0 ? take_head(content) : take_hashes(content);
    if (how == outcome::bad) restart();
    return how;
  }

 private:
  [[nodiscard]] std::uint64_t pieces() const noexcept { return manifest_pieces(local_.chunks()); }

  outcome take_head(std::span<const std::byte> content) {
    auto head = decode_manifest_head(content);
    if (!head || head->root() != root_) return outcome::bad;
    head_ = std::move(head).value();
    if (head_->layout != local_) return outcome::foreign;
    next_ = 1;
    hashes_.reserve(local_.chunks());
    return check();
  }

  outcome take_hashes(std::span<const std::byte> content) {
    const std::size_t due = std::min(hashes_per_piece, local_.chunks() - hashes_.size());
    if (content.size() != due * sizeof(std::uint64_t)) return outcome::bad;
    net::byte_reader in{content};
    for (std::size_t i = 0; i < due; ++i) hashes_.push_back(in.get<std::uint64_t>());
    ++next_;
    return check();
  }

  [[nodiscard]] outcome check() const {
    if (!complete()) return outcome::more;
    return digest_of(hashes_) == head_->digest ? outcome::complete : outcome::bad;
  }

  image_layout local_;
  std::uint64_t root_ = 0;
  std::optional<manifest_head> head_;
  std::vector<std::uint64_t> hashes_;
  std::uint64_t next_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_MANIFEST_HPP

// ---- causeway/membership/transfer_fetcher.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_FETCHER_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_FETCHER_HPP

// The taking side of a state transfer: fetches what differs between the state here and a wanted one, from all its holders
// at once. Nothing that a holder says is believed: the manifest must give the wanted root, a chunk the manifest's hash.
// What has come lies beside the state until it is complete. A pure state machine: messages and times in, messages out.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// How far a fetch is, and what came in vain.
struct fetch_progress {
  struct holder {
    net::peer_id peer = 0;
    std::uint64_t bytes = 0;  ///< of chunks that were used
    bool banned = false;
    bool gone = false;
  };

  std::uint64_t bytes_total = 0;   ///< of the chunks that differ; 0 until the manifest is here
  std::uint64_t bytes_done = 0;    ///< of those, received and right
  std::uint64_t bytes_wasted = 0;  ///< content that was wrong, came twice or was not asked for
  std::uint64_t duplicates = 0;
  std::uint64_t unasked = 0;
  std::uint64_t bad = 0;      ///< wrong chunks and manifests
  std::uint64_t overdue = 0;  ///< times that a holder was silent for too long
  double bytes_per_s = 0;     ///< the highest rate over eight chunks: what the lines carry while nobody else needs them
  std::vector<holder> holders;
};

/// One for the life of a driver: it acknowledges what still arrives when a fetch is over. Thread safety: none; the fabric's
/// lock serves. Memory: the chunks that differ. Cost of a chunk: one hash and one copy of it.
class fetcher {
 public:
  enum class status : std::uint8_t { idle, running, complete, failed };

  /// `fx` must outlive this object.
  fetcher(const transfer_options& options, transfer_effects& fx) : options_{options}, fx_{&fx}, holders_{options} {}
  fetcher(const fetcher&) = delete;
  fetcher& operator=(const fetcher&) = delete;

  /// Begins to fetch `goal`, and ends the fetch before. `local` must be hashed, outlive the fetch and stay as it is
  /// until `commit`. Complete at once where nothing differs.
  void start(const state_name& goal, std::span<const net::peer_id> holders, const state_image& local, time_point now);
  /// These hold the goal now. Others are not asked any more.
  void holders(std::span<const net::peer_id> peers, time_point now);
  /// Ends the fetch without a result. What has come is kept for a fetch of the same state.
  void stop();
  /// Frees what was kept.
  void forget() {
    if (status_ != status::running && status_ != status::complete) staged_ = {};
  }

  // ---- events, whether a fetch runs or not --------------------------------------------------------------------------

  void peer_up(net::peer_id peer, time_point now);
  void peer_down(net::peer_id peer, time_point now);
  /// A message of one of the kinds manifest, chunk and gone. Others are ignored.
  void message(net::peer_id from, const transfer_message& m, time_point now);
  void wake(time_point now);

  // ---- to look at ---------------------------------------------------------------------------------------------------

  [[nodiscard]] status state() const noexcept { return status_; }
  [[nodiscard]] const state_name& goal() const noexcept { return goal_; }
  /// Why it failed: errc::not_found (nobody has it any more), errc::wrong_model (the state here has another layout),
  /// errc::timeout (all holders are silent), errc::peer_lost (none within reach), errc::corrupt (all sent wrong bytes).
  [[nodiscard]] const error& failure() const noexcept { return failure_; }
  /// The newest round that a holder spoke of when it said that it does not have the goal.
  [[nodiscard]] std::uint64_t newest_seen() const noexcept { return newest_seen_; }
  [[nodiscard]] fetch_progress progress() const;

  /// Puts what was fetched into `image`, the one given to `start`, and ends the fetch: see staging::commit. Precondition:
  /// complete.
  result<void> commit(state_image& image, thread_pool* pool = nullptr) {
    CAUSEWAY_EXPECT(status_ == status::complete);
    status_ = status::idle;
    return staged_.commit(image, goal_.root, pool);
  }

 private:
  using holder = transfer_holder;
  using standing = transfer_holder::standing;
  static constexpr std::uint64_t manifest_bit = transfer_holder::manifest_bit;

  // ---- holders ------------------------------------------------------------------------------------------------------

  void release_all(holder& h);
  void part_with(holder& h);
  void punish(holder& h, const std::string& what);
  void declare_overdue(holder& h, time_point now);

  // ---- messages -----------------------------------------------------------------------------------------------------

  void send(net::peer_id to, transfer_kind kind, std::uint64_t index) {
    fx_->transfer_send(to, encode(transfer_message{.kind = kind, .what = goal_, .index = index}));
  }
  void ask(holder& h, std::uint64_t key, time_point now);
  void take_manifest(holder& h, const transfer_message& m, time_point now);
  void take_chunk(holder& h, const transfer_message& m, time_point now);
  void take_gone(holder& h, const transfer_message& m, time_point now);
  void note_rate(std::size_t bytes, time_point now);
  void make_plan();

  // ---- what to do next ----------------------------------------------------------------------------------------------

  void proceed(time_point now);
  bool still_possible(time_point now);
  void ask_for_manifest(time_point now);
  void fill_window(holder& h, time_point now);
  void set_wake(time_point now);
  void finish(status how);
  void fail_with(error why) {
    failure_ = std::move(why);
    finish(status::failed);
  }

  transfer_options options_;
  transfer_effects* fx_;
  transfer_holders holders_;  // also those that are only connected
  status status_ = status::idle;
  error failure_;
  state_name goal_;
  const state_image* local_ = nullptr;
  staging staged_;
  std::uint64_t staged_root_ = 0;  // the state that the chunks in it are of

  manifest_assembler manifest_;
  net::peer_id manifest_from_ = 0;
  std::optional<transfer_plan> plan_;  // when the manifest is complete

  std::uint64_t serial_ = 0;
  std::uint64_t newest_seen_ = 0;
  std::optional<time_point> nobody_since_;
  time_point wakes_at_ = no_deadline;
  fetch_progress counts_;
  std::deque<std::pair<time_point, std::size_t>> arrivals_;  // of the last chunks
};

// ---- the caller ----------------------------------------------------------------------------------------------------

inline void fetcher::start(const state_name& goal, std::span<const net::peer_id> peers, const state_image& local,
                           time_point now) {
  stop();
  goal_ = goal;
  local_ = &local;
  if (staged_root_ != goal.root || staged_.layout() != local.layout()) staged_ = staging{local.layout()};
  staged_root_ = goal.root;
  manifest_ = manifest_assembler{local.layout(), goal.root};
  manifest_from_ = 0;
  plan_.reset();
  newest_seen_ = 0;
  nobody_since_.reset();
  counts_ = {};
  arrivals_.clear();
  holders_.begin_anew();
  if (local.root() == goal.root) return finish(status::complete);
  status_ = status::running;
  holders(peers, now);
}

inline void fetcher::holders(std::span<const net::peer_id> peers, time_point now) {
  if (status_ != status::running) return;
  for (auto& [id, h] : holders_) {
    const bool still = std::find(peers.begin(), peers.end(), id) != peers.end();
    if (h.listed && !still) part_with(h);
    h.listed = still;
  }
  for (const net::peer_id id : peers) holders_.known(id).listed = true;
  proceed(now);
}

inline void fetcher::stop() {
  if (status_ == status::running) finish(status::idle);
  status_ = status::idle;
}

inline fetch_progress fetcher::progress() const {
  fetch_progress p = counts_;
  for (const auto& [id, h] : holders_) {
    if (h.listed) p.holders.push_back({id, h.bytes, h.banned, h.gone});
  }
  return p;
}

// ---- holders -------------------------------------------------------------------------------------------------------

inline void fetcher::peer_up(net::peer_id peer, time_point now) {
  holders_.known(peer).up = true;
  proceed(now);
}

inline void fetcher::peer_down(net::peer_id peer, time_point now) {
  holder* h = holders_.find(peer);
  if (h == nullptr) return;
  release_all(*h);
  h->disconnected();
  if (!h->listed) holders_.erase(peer);
  proceed(now);
}

// Nothing is waited for here any more; what was, is free for others.
inline void fetcher::release_all(holder& h) {
  for (auto& [key, r] : h.asked) {
    const bool counted = r.at == standing::active && (key & manifest_bit) == 0;
    h.forget(key);
    if (counted && plan_) plan_->given_up(key);
  }
  if (manifest_from_ == h.id) manifest_from_ = 0;
}

inline void fetcher::part_with(holder& h) {
  if (h.up && h.waited_for()) send(h.id, transfer_kind::cancel, every_index);
  release_all(h);
}

inline void fetcher::punish(holder& h, const std::string& what) {
  ++counts_.bad;
  if (++h.bad < options_.max_bad) return;
  h.banned = true;
  part_with(h);
  fx_->transfer_log(severity::warning,
                    "state transfer: peer " + std::to_string(h.id) + " sent " + what + "; it is asked no more");
}

// What it was asked for may be asked elsewhere, and is welcome from it all the same.
inline void fetcher::declare_overdue(holder& h, time_point now) {
  ++counts_.overdue;
  ++h.overdue;
  h.pace.overdue(now - h.waiting_since);
  h.waiting_since = now;
  h.active = 0;
  for (auto& [key, r] : h.asked) {
    const bool was_active = r.at == standing::active;
    if (r.at != standing::lost) r.at = was_active ? standing::late : standing::lost;
    if (was_active && plan_ && (key & manifest_bit) == 0) plan_->given_up(key);
  }
  // Alone it would be asked again for what it is sending; where there are others, it had better send nothing more.
  const bool others = holders_.any_other_usable(h, now, [&](const holder& o) { return o.overdue < h.overdue; });
  if (others) send(h.id, transfer_kind::cancel, every_index);
  if (others && manifest_from_ == h.id) manifest_from_ = 0;
  fx_->transfer_log(severity::info, "state transfer: peer " + std::to_string(h.id) + " is silent");
}

// ---- messages ------------------------------------------------------------------------------------------------------

inline void fetcher::message(net::peer_id from, const transfer_message& m, time_point now) {
  if (m.kind != transfer_kind::manifest && m.kind != transfer_kind::chunk && m.kind != transfer_kind::gone) return;
  if (m.kind != transfer_kind::gone) {
    fx_->transfer_send(from, encode(transfer_message{.kind = transfer_kind::receipt, .ticket = m.ticket}));
  }
  holder* h = holders_.find(from);
  if (status_ != status::running || h == nullptr || !h->listed || h->banned || m.what != goal_) {
    ++counts_.unasked;
    counts_.bytes_wasted += m.content.size();
    return;
  }
  switch (m.kind) {
    case transfer_kind::manifest: take_manifest(*h, m, now); break;
    case transfer_kind::chunk: take_chunk(*h, m, now); break;
    default: take_gone(*h, m, now); break;
  }
  proceed(now);
}

inline void fetcher::ask(holder& h, std::uint64_t key, time_point now) {
  h.note_asked(key, ++serial_, now);
  const bool manifest = (key & manifest_bit) != 0;
  send(h.id, manifest ? transfer_kind::ask_manifest : transfer_kind::ask_chunk, key & ~manifest_bit);
}

inline void fetcher::take_manifest(holder& h, const transfer_message& m, time_point now) {
  const bool asked = m.index < manifest_bit && h.note_answer(m.index | manifest_bit, now).has_value();
  if (!asked) ++counts_.unasked;
  if (!asked || plan_ || h.id != manifest_from_ || m.index != manifest_.next_piece()) {
    if (asked) ++counts_.duplicates;
    counts_.bytes_wasted += m.content.size();
    return;
  }
  switch (manifest_.take(m.content)) {
    case manifest_assembler::outcome::more: break;
    case manifest_assembler::outcome::complete: make_plan(); break;
    case manifest_assembler::outcome::foreign: fail_with(manifest_.foreign_layout().error()); break;
    case manifest_assembler::outcome::bad:
      counts_.bytes_wasted += m.content.size();
      manifest_from_ = 0;
      punish(h, "a manifest that is not of the wanted state");
      break;
  }
}

inline void fetcher::make_plan() {
  plan_.emplace(local_->hashes(), manifest_.hashes());
  for (std::size_t i = 0; i < local_->chunks(); ++i) {
    if (!plan_->is_missing(i)) continue;
    counts_.bytes_total += local_->chunk_size(i);
    if (!staged_.has(i)) continue;  // from a fetch that was ended
    counts_.bytes_done += local_->chunk_size(i);
    plan_->done(i);
  }
  if (plan_->missing() == 0) finish(status::complete);
}

inline void fetcher::take_chunk(holder& h, const transfer_message& m, time_point now) {
  const auto r = m.index < manifest_bit ? h.note_answer(m.index, now) : std::nullopt;
  if (!r || !plan_) {
    ++counts_.unasked;
    counts_.bytes_wasted += m.content.size();
    return;
  }
  holders_.observe(r->gap);
  if (!plan_->is_missing(m.index)) {
    ++counts_.duplicates;
    counts_.bytes_wasted += m.content.size();
  } else if (m.content.size() != local_->chunk_size(static_cast<std::size_t>(m.index)) ||
             hash_bytes(m.content) != manifest_.hashes()[static_cast<std::size_t>(m.index)]) {
    counts_.bytes_wasted += m.content.size();
    h.bad_chunks.push_back(m.index);
    punish(h, "chunks with wrong bytes");
  } else {
    staged_.put(static_cast<std::size_t>(m.index), m.content);
    plan_->done(m.index);
    h.bytes += m.content.size();
    counts_.bytes_done += m.content.size();
    note_rate(m.content.size(), now);
    for (auto& [id, other] : holders_) {  // who else was asked need not send it
      if (!other.expects(m.index)) continue;
      send(id, transfer_kind::cancel, m.index);
      other.forget(m.index);
    }
  }
  if (r->active) plan_->given_up(m.index);
  if (plan_->missing() == 0) finish(status::complete);
}

inline void fetcher::note_rate(std::size_t bytes, time_point now) {
  arrivals_.emplace_back(now, bytes);
  if (arrivals_.size() <= 8) return;
  const double took = seconds(now - arrivals_.front().first);
  arrivals_.pop_front();
  std::size_t sum = 0;
  for (const auto& [when, size] : arrivals_) sum += size;
  if (took > 0) counts_.bytes_per_s = std::max(counts_.bytes_per_s, static_cast<double>(sum) / took);
}

inline void fetcher::take_gone(holder& h, const transfer_message& m, time_point now) {
  newest_seen_ = std::max(newest_seen_, m.newest);
  if (!h.waited_for()) return void(++counts_.unasked);
  release_all(h);
  h.asked.clear();
  // A holder that has not come so far yet, or is just changing its state, may have it in a moment.
  const bool mean = (goal_.round & mean_bit) != 0;  // who keeps it no longer will never have it again
  h.gone = mean || m.newest > goal_.round || h.retries >= options_.max_retries;
  if (!h.gone) h.not_before = now + options_.retry * (1U << h.retries++);
}

// ---- what to do next -----------------------------------------------------------------------------------------------

inline void fetcher::wake(time_point now) {
  wakes_at_ = no_deadline;
  if (status_ != status::running) return;
  for (auto& [id, h] : holders_) {
    if (h.eligible() && h.up && h.waited_for() && now >= holders_.deadline(h)) declare_overdue(h, now);
  }
  proceed(now);
}

inline void fetcher::proceed(time_point now) {
  if (status_ != status::running || !still_possible(now)) return;
  if (!plan_) {
    ask_for_manifest(now);
  } else {
    for (auto& [id, h] : holders_) {
      if (h.usable(now)) fill_window(h, now);
    }
  }
  set_wake(now);
}

inline bool fetcher::still_possible(time_point now) {
  const auto outlook = holders_.outlook();
  if (outlook.within_reach) nobody_since_.reset();
  if (!outlook.within_reach && !nobody_since_) nobody_since_ = now;
  if (!outlook.eligible || (!outlook.within_reach && now >= *nobody_since_ + options_.lost_after)) {
    fail_with(holders_.none_left(goal_.round, newest_seen_));
  } else if (outlook.within_reach && !outlook.answers) {
    fail_with(fail(errc::timeout, "state transfer",
                   "no holder of round " + std::to_string(goal_.round) +
                       " answers, though connections stand; the lines are too slow or the peers hang"));
  }
  return status_ == status::running;
}

inline void fetcher::ask_for_manifest(time_point now) {
  holder* current = holders_.find(manifest_from_);
  if (current == nullptr || !current->usable(now)) {
    current = holders_.best(now);
    if (current == nullptr) return;
    manifest_from_ = current->id;
    manifest_.restart();
  }
  for (std::uint64_t piece = manifest_.next_piece(); piece < manifest_.ask_before(); ++piece) {
    if (!current->expects(piece | manifest_bit)) ask(*current, piece | manifest_bit, now);
  }
}

inline void fetcher::fill_window(holder& h, time_point now) {
  const auto suits = [&](std::uint64_t chunk) {
    if (h.expects(chunk)) return false;
    return !h.gave_bad(chunk) || !holders_.any_other_usable(h, now, [&](const holder& o) { return !o.gave_bad(chunk); });
  };
  while (h.active < h.pace.window()) {
    auto chunk = plan_->take(suits);
    if (!chunk) chunk = holders_.worth_asking_twice(h, *plan_, now);
    if (!chunk) return;
    plan_->asked(*chunk);
    ask(h, *chunk, now);
  }
}

inline void fetcher::set_wake(time_point now) {
  time_point next = holders_.next_deadline(now);
  if (nobody_since_) next = std::min(next, *nobody_since_ + options_.lost_after);
  if (next == wakes_at_) return;
  wakes_at_ = next;
  fx_->transfer_wake_at(next);
}

inline void fetcher::finish(status how) {
  if (status_ == status::running) {
    for (auto& [id, h] : holders_) part_with(h);
  }
  status_ = how;
  if (wakes_at_ == no_deadline) return;
  wakes_at_ = no_deadline;
  fx_->transfer_wake_at(no_deadline);
}

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_FETCHER_HPP

// ---- causeway/membership/transfer.hpp ----
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_HPP

// Both sides of the state transfer as one object, for a driver that hands it the fabric's events.

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Thread safety: none; the fabric's lock serves.
class state_transfer {
 public:
  /// `fx` must outlive this object.
  explicit state_transfer(transfer_effects& fx, const transfer_options& options = {})
      : giving{options, fx}, taking{options, fx}, keeping{giving, fx}, kept{fx} {}

  void peer_up(net::peer_id peer, time_point now) { taking.peer_up(peer, now); }
  void peer_down(net::peer_id peer, time_point now) {
    keeping.peer_down(peer);
    kept.peer_down(peer);
    giving.peer_down(peer, now);
    taking.peer_down(peer, now);
  }

  /// A control message for which is_transfer_message holds. errc::corrupt, errc::too_large, errc::protocol: it is
  /// malformed, or asks for what the state it names does not have; nothing was done, and no peer of ours sends such a
  /// thing.
  result<void> message(net::peer_id from, std::span<const std::byte> bytes, time_point now) {
    const auto m = decode_transfer(bytes);
    if (!m) return ++malformed_, m.error();
    CAUSEWAY_TRY(giving.message(from, *m, now));
    if (m->kind == transfer_kind::keep) keeping.message(from, *m);
    kept.message(from, *m);
    taking.message(from, *m, now);
    return {};
  }

  void wake(time_point now) {
    taking.wake(now);
    giving.wake(now);
  }

  [[nodiscard]] std::uint64_t malformed() const noexcept { return malformed_; }

  donor giving;
  fetcher taking;
  kept_states keeping;
  kept_for_us kept;

 private:
  std::uint64_t malformed_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_HPP

// ---- causeway/policy/traits.hpp ----
#ifndef CAUSEWAY_POLICY_TRAITS_HPP
#define CAUSEWAY_POLICY_TRAITS_HPP

// What each kind of policy says about itself, as plain constants. The type of a policy's `traits` also says which slot of a
// trainer it belongs to. The rules over traits are in policy/rules.hpp.

namespace causeway::inline CAUSEWAY_ABI {

/// Whether the set of peers may change during a run.
enum class peers : std::uint8_t { fixed, elastic };

/// What a fault policy decides about an attempted step.
enum class verdict : std::uint8_t {
  commit,  ///< keep it; after a failed phase: the others finished the step, and this peer holds what came of it
  retry,   ///< do the failed phase again; what was computed is kept
  abort,   ///< give up; the step's error goes to the caller
};

/// A communication policy: when peers talk and what they make of it.
struct comm_traits {
  peers tolerates = peers::fixed;  ///< whether it still works when peers come and go
  bool needs_global_step = false;  ///< whether all peers must finish the same step together
  bool identical_replicas = true;  ///< whether all peers hold the same parameters after each committed round
  bool rounds_by_steps = true;     ///< whether rounds come after the same steps on all peers, whatever they are given
  bool prepares_anew = false;      ///< what a round exchanges is made of the parameters, in the gradients, at every attempt
};

/// A parallelism policy: how a batch becomes gradients.
struct parallel_traits {
  bool staged = false;           ///< the model is cut into stages on several peers
  bool reroutes = false;         ///< a lost peer's work goes to another of its stage
  bool global_step = true;       ///< all peers finish the same step together
  bool shares_gradient = false;  ///< a peer's gradient is a part of its stage's: it must be summed in every step
  bool computes_late = false;    ///< what is missing is computed, and stepped on, when a round's exchange is attempted
};

/// A fault policy: what a step is worth when somebody is slow, gone or lying.
struct fault_traits {
  peers produces = peers::fixed;  ///< whether peers may come and go under it
  bool refills_stage = false;     ///< it gives a lost peer's stage to somebody else
  bool retries = false;           ///< it may ask for a failed phase again; exchanges then keep their inputs
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_TRAITS_HPP

// ---- causeway/tensor/batch.hpp ----
#ifndef CAUSEWAY_TENSOR_BATCH_HPP
#define CAUSEWAY_TENSOR_BATCH_HPP

// What a training step is made of: sequences of token numbers and what should follow each token.

namespace causeway::inline CAUSEWAY_ABI {

/// `sequences` × T token numbers, row-major, and their targets (a negative target is not counted). Does not own.
struct batch {
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;
  std::int64_t sequences = 0;
  /// What each sequence is, equal whenever the same tokens come again; empty where nobody says.
  std::span<const std::uint64_t> samples{};

  [[nodiscard]] std::int64_t tokens() const noexcept { return static_cast<std::int64_t>(inputs.size()); }
  [[nodiscard]] std::int64_t length() const noexcept { return sequences == 0 ? 0 : tokens() / sequences; }

  /// Sequences [first, first + count).
  [[nodiscard]] batch slice(std::int64_t first, std::int64_t count) const noexcept {
    const auto at = static_cast<std::size_t>(first * length());
    const auto n = static_cast<std::size_t>(count * length());
    const auto ids =
        samples.empty() ? samples : samples.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    return {inputs.subspan(at, n), targets.subspan(at, n), count, ids};
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_BATCH_HPP

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

namespace causeway::inline CAUSEWAY_ABI {

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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_BUFFER_HPP

// ---- causeway/tensor/parameters.hpp ----
#ifndef CAUSEWAY_TENSOR_PARAMETERS_HPP
#define CAUSEWAY_TENSOR_PARAMETERS_HPP

// A model's parameters as one flat f32 buffer with named pieces, and the gradients beside it in the same layout.
// Optimizers, codecs, collectives and checkpoints see the flat buffers; layers see their pieces. Every piece starts on a
// 64-byte boundary; the padding between pieces is always zero.

namespace causeway::inline CAUSEWAY_ABI {

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

/// What an optimizer works on: values and gradients of equal length, and how they are cut.
struct parameter_view {
  std::span<float> values;
  std::span<float> gradients;
  std::span<const parameter_segment> segments;
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

  [[nodiscard]] float* value(std::size_t segment) noexcept { return values_.data() + segments_[segment].offset; }
  [[nodiscard]] float* gradient(std::size_t segment) noexcept {
    return gradients_.size() == 0 ? nullptr : gradients_.data() + segments_[segment].offset;
  }

  /// Number of parameters, padding not counted.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Length of the flat buffers, padding counted.
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }

  /// Call after changing values from outside the model, so that low-precision copies are made anew.
  void touch() noexcept { ++version_; }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

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
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_PARAMETERS_HPP

// ---- causeway/policy/archetype.hpp ----
#ifndef CAUSEWAY_POLICY_ARCHETYPE_HPP
#define CAUSEWAY_POLICY_ARCHETYPE_HPP

// The least that a policy may rely on. Policies are checked against these declarations, which have no definitions, so that
// error messages stay short and do not depend on the model. train/context.hpp has the real context; the comments are there.

namespace causeway::inline CAUSEWAY_ABI::archetype {

/// What a `serialize` member is given.
struct archive {
  template <class... Ts>
  void operator()(Ts&...);
};

struct context {
  [[nodiscard]] net::peer_index self() const;
  [[nodiscard]] std::uint32_t peers() const;
  [[nodiscard]] std::uint64_t step() const;
  [[nodiscard]] std::uint64_t round() const;
  [[nodiscard]] bool keeps_inputs() const;

  std::span<float> parameters();
  std::span<float> gradients();
  parameter_view view();
  void parameters_changed();
  void reset_inner();
  result<void> subtract(std::span<float>, std::span<const float>, std::span<const float>);
  result<void> copy(std::span<float>, std::span<const float>);
  result<void> track_updates(std::span<float>);

  thread_pool& pool();
  any_clock& clock();
  rng& random();
  rng& shared_random();
  net::any_transport& transport();

  result<double> forward_backward(const batch&, float);
  template <class Codec>
  result<void> mean(const Codec&, std::span<float>);
  result<void> average_with(net::peer_index, std::span<float>);
  std::optional<net::peer_index> random_partner();
  result<void> inner_step();
  float own_norm();
  void resume_at(std::uint64_t step, bool going_on = false);
  void commit_round();

  result<verdict> settle(const result<void>&);
};

}  // namespace causeway::inline CAUSEWAY_ABI::archetype

#endif  // CAUSEWAY_POLICY_ARCHETYPE_HPP

// ---- causeway/policy/concepts.hpp ----
#ifndef CAUSEWAY_POLICY_CONCEPTS_HPP
#define CAUSEWAY_POLICY_CONCEPTS_HPP

// What a policy is: a movable value with a name, traits, all hooks of its kind, and `serialize` for its run state. No base
// class, nothing virtual, no optional hooks: a misspelt hook is an error, not silence.
//
// Two promises that no concept can check, and that the conformance suite does:
// - a hook that returns an error has left the policy and the parameters as they were, so that it can be called again;
// - a hook is a function of the context and the policy's state: equal inputs give equal bits.

namespace causeway::inline CAUSEWAY_ABI {

/// Run state that a checkpoint keeps. Options are not state: they come from the program.
template <class P>
concept Stateful = requires(P& p, archetype::archive& ar) {
  { P::state_version } -> std::convertible_to<std::uint32_t>;
  p.serialize(ar);
};

template <class P, class Traits>
concept PolicyOf = std::movable<P> && std::default_initializable<P> && Stateful<P> && requires {
  { P::name } -> std::convertible_to<std::string_view>;  // its section in checkpoints, its name in logs
  { P::traits } -> std::same_as<const Traits&>;          // also says which slot it belongs to
};

/// What a communication policy for a changing set of peers has besides. `shared`: its run state that all peers hold alike
/// after a committed round, as `serialize` does it, the shared parameters first; a peer that joins is given it. `adopt`:
/// the shared state was replaced by the committed one of a later round; `previous` is what the shared parameters were
/// before, so that local progress can be kept, or empty where it must not be. `catch_up`: take part in an exchange with
/// what there is, nothing for a peer that has just joined, and commit the round. Optional, `result<void> replay(ctx)`: the
/// gradients are what ctx.mean gave in a round; do to the shared state what that round did, bit for bit. With it a peer can
/// join where rounds are shorter than the transfer of the state.
template <class P, class Context = archetype::context>
concept ElasticPolicy = requires(P& p, Context& ctx, archetype::archive& ar, std::span<const float> previous) {
  p.shared(ar);
  p.adopt(ctx, previous);
  { p.catch_up(ctx) } -> std::same_as<result<void>>;
};

/// `start`: once, before the first step; parameters are equal on all peers. `before_inner_step`: gradients are ready.
/// `after_inner_step`: parameters have moved. `finish`: once, after the last step: bring the replicas together.
template <class P, class Context = archetype::context>
concept CommunicationPolicy = PolicyOf<P, comm_traits> &&
    (P::traits.tolerates == peers::fixed || ElasticPolicy<P>)&&requires(P& p, Context& ctx) {
  { p.start(ctx) } -> std::same_as<result<void>>;
  { p.before_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.after_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.finish(ctx) } -> std::same_as<result<void>>;
};

/// `start`: once, before the communication policy's. `forward_backward`: adds the gradient of the mean loss over the batch;
/// gives that mean. Cuts the batch as it likes. `norm`: the gradient is exchanged; completes what peers share of it, and
/// gives the norm over the whole model, by which it is clipped. `after_step`: parameters have moved and what was due is
/// exchanged. `evaluate`: the mean loss over a batch, without gradients.
template <class P, class Context = archetype::context>
concept ParallelismPolicy = PolicyOf<P, parallel_traits> && requires(P& p, Context& ctx, const batch& b) {
  { p.start(ctx) } -> std::same_as<result<void>>;
  { p.forward_backward(ctx, b) } -> std::same_as<result<double>>;
  { p.norm(ctx) } -> std::same_as<result<float>>;
  { p.after_step(ctx) } -> std::same_as<result<void>>;
  { p.evaluate(ctx, b) } -> std::same_as<result<double>>;
};

/// `begin_step`: before anything of a step. `end_step`: judge the attempt; called after a failed phase or a whole step. It
/// may block, to learn what the others made of the round, and its own error ends the step as an abort does.
template <class P, class Context = archetype::context>
concept FaultPolicy = PolicyOf<P, fault_traits> && requires(P& p, Context& ctx, const result<void>& outcome) {
  { p.begin_step(ctx) } -> std::same_as<result<void>>;
  { p.end_step(ctx, outcome) } -> std::same_as<result<verdict>>;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_CONCEPTS_HPP

// ---- causeway/fault/fail_stop.hpp ----
#ifndef CAUSEWAY_FAULT_FAIL_STOP_HPP
#define CAUSEWAY_FAULT_FAIL_STOP_HPP

// The simplest judgement: any failure ends the run with its error. What was committed before is in the checkpoints.

namespace causeway::inline CAUSEWAY_ABI::fault {

/// Commits every step that succeeded and aborts at the first that did not. Keeps no copies and sends nothing.
class fail_stop {
 public:
  static constexpr std::string_view name = "fail_stop";
  static constexpr fault_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  result<void> begin_step(auto&) { return {}; }
  result<verdict> end_step(auto&, const result<void>& outcome) { return outcome ? verdict::commit : verdict::abort; }

  void serialize(auto&) {}
};
static_assert(FaultPolicy<fail_stop>);

}  // namespace causeway::inline CAUSEWAY_ABI::fault

#endif  // CAUSEWAY_FAULT_FAIL_STOP_HPP

// ---- causeway/fault/quorum.hpp ----
#ifndef CAUSEWAY_FAULT_QUORUM_HPP
#define CAUSEWAY_FAULT_QUORUM_HPP

// Peers come, stall and die, and the run goes on. An exchange that failed is run again with the survivors, on the same
// pseudo-gradients; a round counts once a majority of the members of the round before holds it.

namespace causeway::inline CAUSEWAY_ABI::fault {

/// Leaves the judgement of every round to the membership (environment::group, docs/design/membership.md): commit when a
/// quorum voted for it, retry with the survivors when the exchange failed. Inner steps of survivors are never thrown away.
///
/// Cost per round without faults: two control messages to and from the leader, one hash of the shared state, and, where
/// the group has a disk, one copy of it written. Nothing per inner step. Minimum quorum and grace are the group's options.
class quorum {
 public:
  static constexpr std::string_view name = "quorum";
  static constexpr fault_traits traits{.produces = peers::elastic, .retries = true};
  static constexpr std::uint32_t state_version = 1;

  result<void> begin_step(auto&) { return {}; }
  result<verdict> end_step(auto& ctx, const result<void>& outcome) { return ctx.settle(outcome); }

  void serialize(auto&) {}
};
static_assert(FaultPolicy<quorum>);

}  // namespace causeway::inline CAUSEWAY_ABI::fault

#endif  // CAUSEWAY_FAULT_QUORUM_HPP

// ---- causeway/train/checkpoint.hpp ----
#ifndef CAUSEWAY_TRAIN_CHECKPOINT_HPP
#define CAUSEWAY_TRAIN_CHECKPOINT_HPP

// A trainer's state as named sections of a checkpoint, and back. Saving, loading and going on is bit-equal to not having
// stopped, with the same number of threads.

namespace causeway::inline CAUSEWAY_ABI {

/// Turns a value with `serialize` into bytes and back; io::cereal_archiver is one.
template <class A>
concept Archiver = requires(A& a, std::uint64_t& value, std::span<const std::byte> bytes) {
  { a.to_bytes(value) } -> std::convertible_to<result<std::vector<std::byte>>>;
  { a.from_bytes(bytes, value) } -> std::same_as<result<void>>;
};

namespace detail {

struct section_names {
  static constexpr const char* parameters = "model.parameters";
  static constexpr const char* layout = "model.layout";
  static constexpr const char* cut = "cut";
};

}  // namespace detail

/// Where in the run a checkpoint was made. The checkpoints of all peers together are a consistent cut if their rounds are
/// equal: within a round peers are on their own, so their steps may differ.
struct cut {
  std::uint64_t step = 0;
  std::uint64_t round = 0;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(step, round);
  }
};

/// Where `file` was made.
template <Archiver A>
[[nodiscard]] result<cut> read_cut(const io::section_file& file, A archiver) {
  CAUSEWAY_ASSIGN(const io::section_view found, file.find(detail::section_names::cut));
  cut where;
  CAUSEWAY_TRY(archiver.from_bytes(found.bytes, where));
  return where;
}

/// The state of `trainer` as it stands. The section with the parameters refers to the model's own memory: write the
/// sections before the next step. Memory: a copy of everything else, above all of the optimizers' moments.
template <class Trainer, Archiver A>
[[nodiscard]] result<std::vector<io::section>> save_state(Trainer& trainer, A archiver) {
  auto& store = trainer.model().parameters();
  std::vector<io::section> sections;
  sections.push_back(io::section::of<float>(detail::section_names::parameters, 1, store.values()));
  CAUSEWAY_ASSIGN(auto layout, archiver.to_bytes(store.layout_hash()));
  sections.emplace_back(detail::section_names::layout, 1, std::move(layout));
  CAUSEWAY_ASSIGN(auto where, archiver.to_bytes(cut{trainer.context().step(), trainer.context().round()}));
  sections.emplace_back(detail::section_names::cut, 1, std::move(where));
  result<void> outcome;
  trainer.for_each_state([&](const std::string& name, std::uint32_t version, auto& object) {
    if (!outcome) return;
    auto bytes = archiver.to_bytes(object);
    if (!bytes) {
      outcome = std::move(bytes).error();
    } else {
      sections.emplace_back(name, version, std::move(bytes).value());
    }
  });
  if (!outcome) return std::move(outcome).error();
  return sections;
}

/// Reads only the parameters, into the store of a model built alike: for generating and exporting. errc::wrong_model if the
/// shapes differ.
template <Archiver A>
[[nodiscard]] result<void> restore_parameters(parameter_store& store, const io::section_file& file, A archiver) {
  CAUSEWAY_ASSIGN(const io::section_view layout, file.find(detail::section_names::layout));
  std::uint64_t hash = 0;
  CAUSEWAY_TRY(archiver.from_bytes(layout.bytes, hash));
  if (hash != store.layout_hash()) {
    return fail(
        errc::wrong_model, detail::section_names::layout,
        "the checkpoint is of a model with other shapes; use the options that it was trained with, or another run name");
  }
  CAUSEWAY_TRY(file.copy_to(detail::section_names::parameters, store.values()));
  store.touch();
  return {};
}

/// Puts the state from a verified checkpoint into `trainer`, which must be built with the same model and policies. A
/// missing, unknown or newer section, or another model, is an error that names both sides and leaves the trainer as it was.
/// Call `trainer.start()` afterwards.
template <class Trainer, Archiver A>
[[nodiscard]] result<void> restore_state(Trainer& trainer, const io::section_file& file, A archiver) {
  auto& store = trainer.model().parameters();
  using names = detail::section_names;
  std::vector<io::wanted_section> wanted{{names::parameters, 1}, {names::layout, 1}, {names::cut, 1}};
  trainer.for_each_state([&](const std::string& name, std::uint32_t version, auto&) { wanted.push_back({name, version}); });
  CAUSEWAY_TRY(file.match(wanted));

  CAUSEWAY_TRY(restore_parameters(store, file, archiver));

  result<void> outcome;
  trainer.for_each_state([&](const std::string& name, std::uint32_t, auto& object) {
    if (!outcome) return;
    const auto found = file.find(name);
    outcome = found ? archiver.from_bytes(found->bytes, object) : result<void>{found.error()};
  });
  if (outcome) trainer.restored();
  return outcome;
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CHECKPOINT_HPP

// ---- causeway/collective/encoding.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_ENCODING_HPP
#define CAUSEWAY_COLLECTIVE_ENCODING_HPP

// What a collective needs of a codec. Every compress::Codec is one; the codecs themselves live elsewhere, since a
// collective does not care how a float becomes fewer bytes.

namespace causeway::inline CAUSEWAY_ABI::collective {

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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_ENCODING_HPP

// ---- causeway/collective/channels.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_CHANNELS_HPP
#define CAUSEWAY_COLLECTIVE_CHANNELS_HPP

// Who talks on which channel. Every conversation owns `channel_stride` consecutive numbers, so that a collective can keep
// its phases apart by adding a small number to the channel that its caller gave it.

namespace causeway::inline CAUSEWAY_ABI::collective {

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
inline constexpr std::uint32_t user = 64 * channel_stride;        ///< from here on: free for custom policies
}  // namespace channels

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_CHANNELS_HPP

// ---- causeway/collective/options.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_OPTIONS_HPP
#define CAUSEWAY_COLLECTIVE_OPTIONS_HPP

// What all collectives share: how long they may take, how they cut data, where they keep working memory.

namespace causeway::inline CAUSEWAY_ABI::collective {

/// How a sum travels. `n` peers, `size` bytes of f32 each.
enum class algorithm : std::uint8_t {
  automatic,  ///< one_shot up to collective_options::one_shot_bytes, and few peers; butterfly beyond
  one_shot,   ///< everybody sends everything to everybody: (n-1) size bytes a peer, 1 latency; sums in the order 0..n-1
  butterfly,  ///< each peer owns 1/n, sums it, sends it back: 2 (n-1)/n size bytes, 2 latencies; in the order 0..n-1
  ring,       ///< 2 (n-1)/n size bytes, 2 (n-1) latencies, talks to two neighbours only; part p in the order p, p+1, .. p-1
};

/// Memory that collectives reuse. Give the same one to every call of a thread and they allocate nothing after the largest
/// call was seen. Not for two threads at once.
class collective_workspace {
 public:
  /// At least `bytes` bytes, 64-byte aligned; what was there before is lost when it grows.
  [[nodiscard]] std::byte* reserve(std::size_t bytes) {
    if (memory_.size() < bytes) memory_ = aligned_buffer<std::byte>{bytes};
    return memory_.data();
  }

  [[nodiscard]] std::vector<net::operation>& operations() noexcept { return operations_; }
  [[nodiscard]] std::vector<std::size_t>& sizes() noexcept { return sizes_; }
  [[nodiscard]] std::vector<const float*>& parts() noexcept { return parts_; }
  [[nodiscard]] thread_pool& alone() noexcept { return alone_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.size(); }

 private:
  aligned_buffer<std::byte> memory_;
  std::vector<net::operation> operations_;
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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_OPTIONS_HPP

// ---- causeway/collective/flight.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_FLIGHT_HPP
#define CAUSEWAY_COLLECTIVE_FLIGHT_HPP

// The sends and receives that one collective has under way. Buffers belong to the caller, so a collective must not return
// while the transport still reads or writes them: whatever is under way when this object goes, is cancelled.

namespace causeway::inline CAUSEWAY_ABI::collective {

inline std::string peer_name(net::peer_index peer) { return "peer " + std::to_string(peer); }

/// Which message of a collective.
struct part {
  std::uint32_t phase = 0;  ///< below channel_stride
  std::size_t chunk = 0;
};

namespace detail {

inline net::message_id id_of(net::message_id id, const part& what) {
  id.channel = numbered(id.channel + what.phase, what.chunk);
  return id;
}

/// An error says which peer was waited for.
inline result<std::size_t> naming(net::peer_index peer, result<std::size_t> moved) {
  if (!moved && moved.error().where.empty()) moved.error().where = peer_name(peer);
  return moved;
}

inline result<void> without_size(result<std::size_t> moved) {
  if (!moved) return std::move(moved).error();
  return {};
}

}  // namespace detail

/// Numbered places, each empty or holding one operation of a collective on `id`. What the message is, its phase and the
/// number of its chunk, becomes part of its channel.
template <net::Transport T>
class flight {
 public:
  flight(T& transport, const net::message_id& id, time_point deadline, std::vector<net::operation>& places,
         std::size_t count)
      : transport_{transport}, id_{id}, deadline_{deadline}, places_{places} {
    places_.assign(count, 0);
  }
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;

  ~flight() {
    for (const net::operation op : places_) {
      if (op != 0) (void)transport_.wait(op, time_point{});  // a deadline in the past cancels
    }
  }

  [[nodiscard]] net::peer_index self() const { return transport_.self(); }
  [[nodiscard]] std::uint32_t size() const { return transport_.size(); }

  void send(std::size_t place, net::peer_index to, const part& what, std::span<const std::byte> bytes) {
    CAUSEWAY_EXPECT(places_[place] == 0);
    places_[place] = transport_.send(to, detail::id_of(id_, what), bytes);
  }

  void receive(std::size_t place, net::peer_index from, const part& what, std::span<std::byte> buffer) {
    CAUSEWAY_EXPECT(places_[place] == 0);
    places_[place] = transport_.receive(from, detail::id_of(id_, what), buffer);
  }

  /// One more place than the constructor was asked for.
  std::size_t add_place() {
    places_.push_back(0);
    return places_.size() - 1;
  }

  /// Bytes moved by the operation in `place`; 0 where there is none. An error names the peer.
  result<std::size_t> wait(std::size_t place, net::peer_index peer) {
    const net::operation op = std::exchange(places_[place], 0);
    if (op == 0) return std::size_t{0};
    return detail::naming(peer, transport_.wait(op, deadline_));
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
  std::vector<net::operation>& places_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_FLIGHT_HPP

// ---- causeway/collective/refusal.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_REFUSAL_HPP
#define CAUSEWAY_COLLECTIVE_REFUSAL_HPP

// "The values of peer p cannot be used", as eight bytes. A peer whose values are refused must not make the others wait: a
// collective goes on to its end, tells everybody whose values were refused, and then fails on all peers alike.

namespace causeway::inline CAUSEWAY_ABI::collective {

/// Whose values were refused and why. `peer` equal to the number of peers: nobody's; the sum itself is too large for f32
/// (errc::non_finite), or there are no weights to divide by (errc::invalid_argument). Other codes are of this peer's
/// device.
struct refusal {
  std::uint32_t peer = 0;
  errc code = errc::non_finite;
  bool told = false;  ///< by another peer: this one has not seen the values
};

using refusal_bytes = std::array<std::byte, 8>;

inline refusal_bytes to_bytes(const refusal& r) noexcept {
  const std::uint32_t words[2] = {r.peer, static_cast<std::uint32_t>(r.code)};
  refusal_bytes bytes;
  std::memcpy(bytes.data(), words, sizeof words);
  return bytes;
}

/// Reads what a peer claims; nullopt when it makes no sense.
inline std::optional<refusal> from_bytes(std::span<const std::byte> bytes, std::uint32_t peers) noexcept {
  if (bytes.size() != sizeof(refusal_bytes)) return std::nullopt;
  std::uint32_t words[2];
  std::memcpy(words, bytes.data(), sizeof words);
  const auto code = static_cast<errc>(words[1]);
  const bool known = code == errc::non_finite || code == errc::corrupt || code == errc::protocol;
  const bool weights = code == errc::invalid_argument && words[0] == peers;
  if (words[0] > peers || words[1] > 0xFFFFU || !(known || weights)) return std::nullopt;
  return refusal{words[0], code, true};
}

/// Keeps one of several refusals: the lowest peer's, so that all peers report the same one. What this peer saw itself
/// counts for more than what it was told of the same peer.
inline void note(std::optional<refusal>& kept, const refusal& r) noexcept {
  const bool seen = kept && r.peer == kept->peer && !r.told;
  if (!kept || r.peer < kept->peer || seen) kept = r;
}

/// error::culprit is the refused peer, unless this one was only told.
inline error to_error(const refusal& r, std::uint32_t peers) {
  if (r.peer == peers && r.code == errc::invalid_argument) {
    return fail(errc::invalid_argument, "exchange",
                "the weights of all peers add up to 0: nobody contributes to this mean");
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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_REFUSAL_HPP

// ---- causeway/kernels/cpu_features.hpp ----
#ifndef CAUSEWAY_KERNELS_CPU_FEATURES_HPP
#define CAUSEWAY_KERNELS_CPU_FEATURES_HPP

// Which vector instructions a kernel may use, found at run time: a program built for any x86-64 uses what its machine has.
// Functions marked with a CAUSEWAY_TARGET_ macro are compiled for that instruction set whatever the build's flags say; they
// may be called only after detect_simd_level() said so.

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CAUSEWAY_X86_SIMD 1
#define CAUSEWAY_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define CAUSEWAY_TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
#define CAUSEWAY_TARGET_AVX512_BF16 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#else
#define CAUSEWAY_X86_SIMD 0
#endif

// Before a loop over an array of vectors: unrolled, so that the array lives in registers.
#if defined(__clang__)
#define CAUSEWAY_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define CAUSEWAY_UNROLL _Pragma("GCC unroll 16")
#else
#define CAUSEWAY_UNROLL
#endif

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Instruction sets, each containing the ones before.
enum class simd_level : std::uint8_t {
  portable,     ///< nothing beyond what the compiler was told
  avx2,         ///< AVX2, FMA, F16C
  avx512,       ///< AVX-512 F, BW, VL, DQ
  avx512_bf16,  ///< AVX-512 and its bf16 dot products
};

/// The best level of this machine. Asks the processor once.
inline simd_level detect_simd_level() noexcept {
#if CAUSEWAY_X86_SIMD
  static const simd_level level = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return simd_level::portable;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!avx512) return simd_level::avx2;
    return __builtin_cpu_supports("avx512bf16") ? simd_level::avx512_bf16 : simd_level::avx512;
  }();
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
  }
  return "unknown";
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

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

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE auto run_portable(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_EXACT_COPY auto run_portable_exact(Args... args) {
  return Kernel::run(args...);
}

#if CAUSEWAY_X86_SIMD
template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 auto run_avx2(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 CAUSEWAY_EXACT_COPY auto run_avx2_exact(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 auto run_avx512(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 CAUSEWAY_EXACT_COPY auto run_avx512_exact(Args... args) {
  return Kernel::run(args...);
}
#endif

/// Calls the copy of `Kernel::run` for `level`, which this machine must support.
template <class Kernel, class... Args>
inline auto dispatch(simd_level level, Args... args) {
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

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_TARGETS_HPP

// ---- causeway/tensor/dtype.hpp ----
#ifndef CAUSEWAY_TENSOR_DTYPE_HPP
#define CAUSEWAY_TENSOR_DTYPE_HPP

// Element types and their conversions. Sums are always made in f32; bf16 and f16 are storage.

namespace causeway::inline CAUSEWAY_ABI {

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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_DTYPE_HPP

// ---- causeway/kernels/simd_math.hpp ----
#ifndef CAUSEWAY_KERNELS_SIMD_MATH_HPP
#define CAUSEWAY_KERNELS_SIMD_MATH_HPP

// Sixteen lanes at a time, written once with the compilers' generic vectors; the kernel copies of targets.hpp decide what
// they become (one AVX-512 register, two AVX2, four SSE2). Arithmetic is the built-in operators; what they lack is here.
// Everything takes and returns vectors by reference: a vector by value in a function that is not compiled for its register
// size has no settled calling convention, and compilers say so, even where all is inlined.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// A lambda inside a kernel, inlined whatever the compiler thinks of its size.
#define CAUSEWAY_INLINE_LAMBDA __attribute__((always_inline))

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

using f32x16 [[gnu::vector_size(64)]] = float;
using i32x16 [[gnu::vector_size(64)]] = std::int32_t;
using u32x16 [[gnu::vector_size(64)]] = std::uint32_t;
using u16x16 [[gnu::vector_size(32)]] = std::uint16_t;
using f32x8 [[gnu::vector_size(32)]] = float;
using f32x4 [[gnu::vector_size(16)]] = float;

inline constexpr std::int64_t vector_lanes = 16;

/// Marks a whole vector of lanes, against `tail`: the first `count` of them.
struct whole {};
struct tail {
  std::int64_t count;
};

/// Calls `body(i, whole)` for i = 0, 16, ... and `body(i, tail)` for what is left of [0, count).
template <class Body>
CAUSEWAY_ALWAYS_INLINE void for_lanes(std::int64_t count, Body&& body) {
  std::int64_t i = 0;
  for (; i + vector_lanes <= count; i += vector_lanes) body(i, whole{});
  if (i < count) body(i, tail{count - i});
}

// ---- loads and stores: f32 in registers, f32, bf16 or f16 in memory ------------------------------------------------

CAUSEWAY_ALWAYS_INLINE void load(f32x16& v, const float* p, whole) { std::memcpy(&v, p, sizeof v); }
CAUSEWAY_ALWAYS_INLINE void store(float* p, const f32x16& v, whole) { std::memcpy(p, &v, sizeof v); }

CAUSEWAY_ALWAYS_INLINE void widen(f32x16& v, const u16x16& raw, const bf16*) {
  const u32x16 bits = __builtin_convertvector(raw, u32x16) << 16U;
  v = reinterpret_cast<f32x16>(bits);
}

/// Rounds to nearest even; a NaN stays one.
CAUSEWAY_ALWAYS_INLINE void narrow(u16x16& raw, const f32x16& v, const bf16*) {
  const u32x16 bits = reinterpret_cast<u32x16>(v);
  const u32x16 rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  const u32x16 result = v != v ? (bits | 0x400000U) : rounded;
  raw = __builtin_convertvector(result >> 16U, u16x16);
}

/// The exponent is moved by a multiplication, which also makes subnormals right.
CAUSEWAY_ALWAYS_INLINE void widen(f32x16& v, const u16x16& raw, const f16*) {
  const u32x16 half = __builtin_convertvector(raw, u32x16);
  const u32x16 shifted = (half & 0x7FFFU) << 13U;
  const f32x16 scaled = reinterpret_cast<f32x16>(shifted) * 0x1.0p112F;
  const u32x16 infinite = shifted | 0x7F800000U;
  const u32x16 finite = reinterpret_cast<u32x16>(scaled);
  const u32x16 magnitude = reinterpret_cast<i32x16>(shifted) >= 0x0F800000 ? infinite : finite;
  const u32x16 bits = magnitude | ((half & 0x8000U) << 16U);
  v = reinterpret_cast<f32x16>(bits);
}

/// Rounds to nearest even. Subnormals are rounded by the addition of a number whose last bit is theirs.
CAUSEWAY_ALWAYS_INLINE void narrow(u16x16& raw, const f32x16& v, const f16*) {
  const u32x16 bits = reinterpret_cast<u32x16>(v);
  const u32x16 magnitude = bits & 0x7FFFFFFFU;
  const i32x16 order = reinterpret_cast<i32x16>(magnitude);
  const u32x16 normal = (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
  const f32x16 shifted = reinterpret_cast<f32x16>(magnitude) + 0.5F;
  const u32x16 subnormal = reinterpret_cast<u32x16>(shifted) - 0x3F000000U;
  const u32x16 infinite = (magnitude & 0U) + 0x7C00U;
  const u32x16 not_a_number = infinite + 0x200U;
  u32x16 half = order < 0x38800000 ? subnormal : normal;
  half = order >= 0x477FF000 ? infinite : half;
  half = order > 0x7F800000 ? not_a_number : half;
  raw = __builtin_convertvector(half | ((bits >> 16U) & 0x8000U), u16x16);
}

template <class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void load(f32x16& v, const Half* p, whole) {
  u16x16 raw;
  std::memcpy(&raw, p, sizeof raw);
  widen(v, raw, p);
}

template <class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void store(Half* p, const f32x16& v, whole) {
  u16x16 raw;
  narrow(raw, v, p);
  std::memcpy(static_cast<void*>(p), &raw, sizeof raw);
}

/// Lanes beyond the tail read as zero.
template <class T>
CAUSEWAY_ALWAYS_INLINE void load(f32x16& v, const T* p, tail part) {
  T padded[vector_lanes] = {};
  std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(T));
  load(v, padded, whole{});
}

template <class T>
CAUSEWAY_ALWAYS_INLINE void store(T* p, const f32x16& v, tail part) {
  T padded[vector_lanes];
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

/// e^x in place, relative error below 1e-7 (Cephes' polynomial). Arguments beyond ±87 are taken as ±87, so that neither
/// the result nor its reciprocal is subnormal or infinite; NaN stays NaN.
CAUSEWAY_ALWAYS_INLINE void exponential(f32x16& x) {
  constexpr float round = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  f32x16 high, low;
  broadcast(high, 87.0F);
  broadcast(low, -87.0F);
  x = high < x ? high : x;  // in this order it is one instruction, and NaN stays
  x = low > x ? low : x;
  const f32x16 shifted = x * 1.44269504088896341F + round;
  const f32x16 n = shifted - round;
  const f32x16 r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  f32x16 p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r;
  const u32x16 power = (reinterpret_cast<u32x16>(shifted) + (127U - 0x4B400000U)) << 23U;
  const f32x16 scale = reinterpret_cast<f32x16>(power);
  x = p * scale + scale;
}

/// The logistic function of -x in place: 1 / (1 + e^x).
CAUSEWAY_ALWAYS_INLINE void sigmoid_of_minus(f32x16& x) {
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

/// Adds `term(accumulator, i)` over the whole vectors of [0, count), then `last(i)` for what is left, and returns the sum.
/// Four accumulators, because one would wait for itself.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE float sum_lanes(std::int64_t count, Term&& term, Last&& last) {
  CAUSEWAY_EXACT_BODY
  f32x16 a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 4 * vector_lanes <= count; i += 4 * vector_lanes) {
    term(a, i);
    term(b, i + vector_lanes);
    term(c, i + 2 * vector_lanes);
    term(d, i + 3 * vector_lanes);
  }
  for (; i + vector_lanes <= count; i += vector_lanes) term(a, i);
  a = (a + b) + (c + d);
  float sum = horizontal_sum(a);
  for (; i < count; ++i) sum += last(i);
  return sum;
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_SIMD_MATH_HPP

// ---- causeway/collective/sum.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_SUM_HPP
#define CAUSEWAY_COLLECTIVE_SUM_HPP

// Sums of several peers' values in a fixed order, in f32, with a check for NaN and infinity on the way: one pass over
// memory. The same bits on every machine.

namespace causeway::inline CAUSEWAY_ABI::collective {

namespace detail {

/// Whether any lane of `v` is NaN or infinite, accumulated in `bad`.
CAUSEWAY_ALWAYS_INLINE void look_for_not_finite(kernels::detail::i32x16& bad, const kernels::detail::f32x16& v) {
  bad |= (reinterpret_cast<kernels::detail::i32x16>(v) & 0x7F800000) == 0x7F800000;
}

CAUSEWAY_ALWAYS_INLINE bool any_lane(const kernels::detail::i32x16& mask) {
  std::int32_t all = 0;
  for (int lane = 0; lane < 16; ++lane) all |= mask[lane];
  return all != 0;
}

struct finite_values_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const float* p, std::int64_t count) {
    kernels::detail::i32x16 bad{};
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, p + i, part);
      look_for_not_finite(bad, v);
    });
    return !any_lane(bad);
  }
};

struct copy_finite_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const float* from, float* to, std::int64_t count) {
    kernels::detail::i32x16 bad{};
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      look_for_not_finite(bad, v);
      kernels::detail::store(to + i, v, part);
    });
    return !any_lane(bad);
  }
};

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
    kernels::detail::i32x16 bad{};
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 sum, next;
      kernels::detail::load(sum, parts[0] + at + i, part);
      for (std::size_t p = 1; p < parts.size(); ++p) {
        kernels::detail::load(next, parts[p] + at + i, part);
        sum += next;
      }
      sum *= factor;
      look_for_not_finite(bad, sum);
      kernels::detail::store(sums + i, sum, part);
    });
    if (any_lane(bad)) return false;
    std::memcpy(out + at, sums, static_cast<std::size_t>(count) * sizeof(float));
    return true;
  }
};

}  // namespace detail

/// out[i] = factor · (parts[0][i] + parts[1][i] + ...), added from left to right in f32. `out` may be one of the parts.
/// False when a result is NaN or infinite; then a part whose own values are not finite still holds them. Bit-identical for
/// every thread count and instruction set. Reads 4 bytes an element and part, writes 4 an element.
inline bool sum_parts(thread_pool& pool, std::span<const float* const> parts, float factor, float* out, std::int64_t count,
                      kernels::simd_level level = kernels::detect_simd_level()) {
  std::atomic<bool> finite{true};
  pool.for_range(count, 16 * detail::sum_parts_kernel::block, [&](index_range r) {
    const bool good = kernels::detail::dispatch<detail::sum_parts_kernel>(level, parts, factor, out, r.begin, r.end);
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

/// Whether no value is NaN or infinite.
inline bool finite_values(std::span<const float> values, kernels::simd_level level = kernels::detect_simd_level()) {
  return kernels::detail::dispatch<detail::finite_values_kernel>(level, values.data(),
                                                                 static_cast<std::int64_t>(values.size()));
}

/// to = from, bit by bit, in one pass with the look for NaN and infinity; false where there are any.
inline bool copy_finite(thread_pool& pool, std::span<const float> from, std::span<float> to,
                        kernels::simd_level level = kernels::detect_simd_level()) {
  std::atomic<bool> finite{true};
  pool.for_range(static_cast<std::int64_t>(from.size()), 16 * detail::sum_parts_kernel::block, [&](index_range r) {
    const bool good =
        kernels::detail::dispatch<detail::copy_finite_kernel>(level, from.data() + r.begin, to.data() + r.begin, r.size());
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SUM_HPP

// ---- causeway/collective/butterfly.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_BUTTERFLY_HPP
#define CAUSEWAY_COLLECTIVE_BUTTERFLY_HPP

// Reduce-scatter by direct exchange, then all-gather. Each peer owns one n-th of the values: it receives that part from
// everybody, adds the parts in the order of the peers, and sends the result to everybody. Both phases are cut into chunks
// that follow each other through three stages (scatter, reduce, adopt), so that sums overlap transfers. With an encoding,
// every contribution is encoded exactly once, the reduced part is encoded once, and everybody, the owner too, adopts the
// decoded bytes: replicas stay bit-identical.

#include <list>

namespace causeway::inline CAUSEWAY_ABI::collective {

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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_BUTTERFLY_HPP

// ---- causeway/collective/ring.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_RING_HPP
#define CAUSEWAY_COLLECTIVE_RING_HPP

// All-reduce around a ring (Patarasuk and Yuan, 2009). Segment s starts at peer s and collects one contribution per hop,
// so it is added in the order s, s+1, ..., s-1; then the sums go round once more. Segments are cut into chunks, and a chunk
// is passed on as soon as it is summed, so that the sum of one overlaps the transfer of the next.

#include <limits>

namespace causeway::inline CAUSEWAY_ABI::collective {

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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_RING_HPP

// ---- causeway/collective/all_reduce.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP
#define CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP

// Sums and means over all peers. Whatever the algorithm, every peer ends with the same bits, and those depend on the order
// of the peers and on nothing else: not on arrival times, thread counts or instruction sets. After an error the values are
// unspecified: keep a copy where the step can be repeated.

namespace causeway::inline CAUSEWAY_ABI::collective {

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
template <net::Transport T>
result<void> all_reduce_sum(T& transport, const net::message_id& id, std::span<float> data,
                            const collective_options& options = {}) {
  return detail::all_reduce(transport, id, data, 1.0F, options);
}

/// As all_reduce_sum, then times 1/n (as f32), before the sums are sent round.
template <net::Transport T>
result<void> all_reduce_mean(T& transport, const net::message_id& id, std::span<float> data,
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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_ALL_REDUCE_HPP

// ---- causeway/collective/gather.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_GATHER_HPP
#define CAUSEWAY_COLLECTIVE_GATHER_HPP

// Everybody's bytes to one peer, or to all. Lengths may differ: each peer says its length first, and nobody reserves more
// than the caller's limit because somebody else says so.

namespace causeway::inline CAUSEWAY_ABI::collective {

namespace detail {

/// The places of one gather's operations: for every peer a length and bytes, out and in.
struct gather_places {
  std::size_t peers;
  [[nodiscard]] std::size_t length_out(net::peer_index p) const { return p; }
  [[nodiscard]] std::size_t bytes_out(net::peer_index p) const { return peers + p; }
  [[nodiscard]] std::size_t length_in(net::peer_index p) const { return 2 * peers + p; }
  [[nodiscard]] std::size_t bytes_in(net::peer_index p) const { return 3 * peers + p; }
};

inline error too_long(net::peer_index peer, std::size_t offered, std::size_t limit) {
  return fail(errc::too_large, peer_name(peer),
              std::to_string(offered) + " bytes to gather, where the caller allows " + std::to_string(limit));
}

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
template <net::Transport T>
result<void> gather(T& transport, const net::message_id& id, net::peer_index root, std::span<const std::byte> mine,
                    std::size_t limit, std::vector<std::vector<std::byte>>& all, const collective_options& options = {}) {
  CAUSEWAY_EXPECT(root < transport.size());
  const auto wants = [root](net::peer_index p) { return p == root; };
  return detail::gather_to(transport, id, mine, limit, all, wants, options);
}

/// As gather, on every peer: 1 latency; every peer sends n-1 times its bytes and 8 more.
template <net::Transport T>
result<void> all_gather(T& transport, const net::message_id& id, std::span<const std::byte> mine, std::size_t limit,
                        std::vector<std::vector<std::byte>>& all, const collective_options& options = {}) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_GATHER_HPP

// ---- causeway/collective/group_view.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP
#define CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP

// Some peers of a transport as a Transport of their own, ranked in the order in which they are listed: pairs, regions, the
// axis of a grid; or all of them in another order, where an algorithm sends to the next rank and the order is what costs.

namespace causeway::inline CAUSEWAY_ABI::collective {

/// Models Transport. Nothing is sent to anybody who is not listed. Threading: as the transport below, which must stay where
/// it is while the view is used. Groups that share no peer may use the same message ids; a peer that talks in two groups at
/// once needs different ones. Errors of the transport name its peers, not ranks.
class group_view {
 public:
  /// `members[r]` is the peer of rank r: distinct peers of `over`, its own self among them, in the same order on all of
  /// them.
  group_view(net::any_transport& over, std::vector<net::peer_index> members)
      : over_{&over}, members_{std::move(members)}, self_{rank_of(over.self())} {
    CAUSEWAY_EXPECT(self_ < members_.size());
    CAUSEWAY_EXPECT(are_distinct());
  }

  [[nodiscard]] net::peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  [[nodiscard]] net::peer_index peer_of(net::peer_index rank) const noexcept { return members_[rank]; }

  net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes) {
    return is_other(to) ? over_->send(members_[to], id, bytes) : no_operation;
  }
  net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer) {
    return is_other(from) ? over_->receive(members_[from], id, buffer) : no_operation;
  }
  result<std::size_t> wait(net::operation op, time_point deadline) {
    if (op == no_operation) return fail(errc::invalid_argument, "group", "there is no such other rank");
    return over_->wait(op, deadline);
  }
  [[nodiscard]] bool done(net::operation op) const { return op == no_operation || over_->done(op); }

  /// Of the whole transport.
  [[nodiscard]] traffic stats() const { return over_->stats(); }

 private:
  static constexpr net::operation no_operation = 0;

  [[nodiscard]] bool is_other(net::peer_index rank) const noexcept { return rank < members_.size() && rank != self_; }

  [[nodiscard]] net::peer_index rank_of(net::peer_index peer) const {
    return static_cast<net::peer_index>(std::find(members_.begin(), members_.end(), peer) - members_.begin());
  }
  [[nodiscard]] bool are_distinct() const {
    std::vector<net::peer_index> sorted = members_;
    std::sort(sorted.begin(), sorted.end());
    return sorted.back() < over_->size() && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }

  net::any_transport* over_;
  std::vector<net::peer_index> members_;
  net::peer_index self_;
};
static_assert(net::Transport<group_view>);

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_GROUP_VIEW_HPP

// ---- causeway/collective/pairs.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_PAIRS_HPP
#define CAUSEWAY_COLLECTIVE_PAIRS_HPP

// Peers two by two: who meets whom, and the mean of what the two hold.

#include <numeric>

namespace causeway::inline CAUSEWAY_ABI::collective {

/// The partner of `self` when `peers` are paired at random; none for the one left over of an odd number. Peers that `draw`
/// alike get the same pairs. Cost: O(peers).
[[nodiscard]] inline std::optional<net::peer_index> partner_of(net::peer_index self, std::uint32_t peers, rng draw) {
  std::vector<net::peer_index> order(peers);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    if (order[i] == self) return order[i + 1];
    if (order[i + 1] == self) return order[i];
  }
  return std::nullopt;
}

/// Both peers: data ← (theirs + ours) / 2; both must call it with the same `id`. `received` has the length of `data` and is
/// overwritten. Bytes: 4 per value each way. errc::protocol where the other sends another number of values.
inline result<void> average_pair(net::any_transport& transport, net::peer_index other, const net::message_id& id,
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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_PAIRS_HPP

// ---- causeway/kernels/column_sum.hpp ----
#ifndef CAUSEWAY_KERNELS_COLUMN_SUM_HPP
#define CAUSEWAY_KERNELS_COLUMN_SUM_HPP

// Sums over the rows of a matrix, for the gradients of biases and gains: rows are cut into blocks that depend on their
// number alone, each block has a partial sum, and these are added in order. So results do not depend on the number of
// threads.

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// Enough blocks for 64 threads, but so few that the partial sums are small beside the rows.
constexpr std::int64_t row_blocks(std::int64_t rows) noexcept { return std::clamp<std::int64_t>(rows / 32, 1, 64); }

struct column_sum_kernel {
  static constexpr bool exact = true;
  /// sums[0, columns) += the sum over rows, of a piece of a matrix whose rows are `stride` apart.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* x, float* sums, std::int64_t rows, std::int64_t columns,
                                         std::int64_t stride) {
    for (std::int64_t row = 0; row < rows; ++row, x += stride) {
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 sum, a;
        load(sum, sums + i, part);
        load(a, x + i, part);
        store(sums + i, sum + a, part);
      });
    }
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_COLUMN_SUM_HPP

// ---- causeway/kernels/convert.hpp ----
#ifndef CAUSEWAY_KERNELS_CONVERT_HPP
#define CAUSEWAY_KERNELS_CONVERT_HPP

// Between f32 and the two 16-bit formats, rounding to nearest even. Bit for bit what the constructors of bf16 and f16 do.

namespace causeway::inline CAUSEWAY_ABI::kernels {

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

template <class From, class To>
void convert_elements(thread_pool& pool, const From* from, To* to, std::int64_t count, simd_level level) {
  for_elements(pool, count,
               [&](index_range part) { dispatch<convert_kernel>(level, from + part.begin, to + part.begin, part.size()); });
}

}  // namespace detail

/// to[i] = from[i] for `count` elements. Moves 6 bytes an element.
inline void convert(thread_pool& pool, const float* from, bf16* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

inline void convert(thread_pool& pool, const bf16* from, float* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

/// Values beyond 65504 become infinite.
inline void convert(thread_pool& pool, const float* from, f16* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

inline void convert(thread_pool& pool, const f16* from, float* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

/// A copy, so that code for either activation type needs no special case.
inline void convert(thread_pool& pool, const float* from, float* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_CONVERT_HPP

// ---- causeway/tensor/scratch.hpp ----
#ifndef CAUSEWAY_TENSOR_SCRATCH_HPP
#define CAUSEWAY_TENSOR_SCRATCH_HPP

// Working memory of kernels: a stack that grows until it has seen the largest need and allocates no more after that.

namespace causeway::inline CAUSEWAY_ABI {

/// A stack of memory. Take pieces from a `frame`; they are valid until the frame ends. Frames nest. One thread at a time
/// may open frames and take pieces (the caller of a kernel does, for all threads of the pool).
class scratch {
 public:
  class frame {
   public:
    explicit frame(scratch& owner) noexcept : owner_{owner}, chunk_{owner.chunk_}, used_{owner.used_} {}
    frame(const frame&) = delete;
    frame& operator=(const frame&) = delete;
    ~frame() {
      owner_.chunk_ = chunk_;
      owner_.used_ = used_;
    }

    /// `count` values, 64-byte aligned, not initialised.
    template <class T>
    [[nodiscard]] T* take(std::size_t count) {
      return static_cast<T*>(owner_.bytes(count * sizeof(T)));
    }

   private:
    scratch& owner_;
    std::size_t chunk_;
    std::size_t used_;
  };

  [[nodiscard]] frame open() noexcept { return frame{*this}; }

  /// Bytes held.
  [[nodiscard]] std::size_t capacity() const noexcept {
    std::size_t total = 0;
    for (const auto& chunk : chunks_) total += chunk.size();
    return total;
  }

 private:
  void* bytes(std::size_t count) {
    count = (count + 63) / 64 * 64;
    while (chunk_ < chunks_.size() && used_ + count > chunks_[chunk_].size()) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) {
      chunks_.emplace_back(std::max(count, std::size_t{1} << 20U));
      used_ = 0;
    }
    void* piece = chunks_[chunk_].data() + used_;
    used_ += count;
    return piece;
  }

  std::vector<aligned_buffer<std::byte>> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_SCRATCH_HPP

// ---- causeway/kernels/activation.hpp ----
#ifndef CAUSEWAY_KERNELS_ACTIVATION_HPP
#define CAUSEWAY_KERNELS_ACTIVATION_HPP

// GELU in its tanh form (Hendrycks and Gimpel 2016), SwiGLU (Shazeer 2020), and the gradient of a bias. Backward passes
// compute the inner function again from the saved input, which is cheaper than reading it back from memory.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

// 0.5·x·(1 + tanh(u)) is x·sigmoid(2u), which keeps its relative accuracy where tanh(u) nears -1.
inline constexpr float gelu_double_scale = 1.5957691216057308F;  // 2·sqrt(2/pi)
inline constexpr float gelu_cube_factor = 0.044715F;

CAUSEWAY_ALWAYS_INLINE void gelu_gate(f32x16& gate, const f32x16& x) {
  gate = x * (-gelu_double_scale * gelu_cube_factor * (x * x) - gelu_double_scale);
  sigmoid_of_minus(gate);
}

struct gelu_forward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* x, T* y, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v, gate;
      load(v, x + i, part);
      gelu_gate(gate, v);
      store(y + i, v * gate, part);
    });
  }
};

struct gelu_backward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* x, const T* dy, T* dx, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v, gate, d;
      load(v, x + i, part);
      load(d, dy + i, part);
      gelu_gate(gate, v);
      const f32x16 slope = 3.0F * gelu_double_scale * gelu_cube_factor * (v * v) + gelu_double_scale;
      store(dx + i, d * (gate + v * slope * (gate * (1.0F - gate))), part);
    });
  }
};

struct swiglu_forward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* gate_up, T* y, std::int64_t rows, std::int64_t hidden) {
    for (std::int64_t row = 0; row < rows; ++row, gate_up += 2 * hidden, y += hidden) {
      for_lanes(hidden, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 gate, up;
        load(gate, gate_up + i, part);
        load(up, gate_up + hidden + i, part);
        f32x16 s = -gate;
        sigmoid_of_minus(s);
        store(y + i, gate * s * up, part);
      });
    }
  }
};

struct swiglu_backward_kernel {
  static constexpr bool exact = false;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows,
                                         std::int64_t hidden) {
    for (std::int64_t row = 0; row < rows; ++row, gate_up += 2 * hidden, dgate_up += 2 * hidden, dy += hidden) {
      for_lanes(hidden, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 gate, up, d;
        load(gate, gate_up + i, part);
        load(up, gate_up + hidden + i, part);
        load(d, dy + i, part);
        f32x16 s = -gate;
        sigmoid_of_minus(s);
        store(dgate_up + i, d * up * (s + gate * (s * (1.0F - s))), part);
        store(dgate_up + hidden + i, d * (gate * s), part);
      });
    }
  }
};

}  // namespace detail

/// y = gelu(x), the tanh form. Moves 8 bytes an element (f32), 4 (bf16). y may be x.
template <Activation T>
void gelu_forward(thread_pool& pool, const T* x, T* y, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::gelu_forward_kernel>(level, x + part.begin, y + part.begin, part.size());
  });
}

/// dx = dy · gelu'(x). Moves 12 bytes an element (f32), 6 (bf16). dx may be dy.
template <Activation T>
void gelu_backward(thread_pool& pool, const T* x, const T* dy, T* dx, std::int64_t count,
                   simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::gelu_backward_kernel>(level, x + part.begin, dy + part.begin, dx + part.begin, part.size());
  });
}

/// y = silu(gate) · up, with gate_up [rows, 2·hidden] = [gate | up] and y [rows, hidden]. Moves 12 bytes an element of y
/// (f32), 6 (bf16).
template <Activation T>
void swiglu_forward(thread_pool& pool, const T* gate_up, T* y, std::int64_t rows, std::int64_t hidden,
                    simd_level level = detect_simd_level()) {
  detail::for_rows(pool, rows, hidden, [&](index_range part) {
    detail::dispatch<detail::swiglu_forward_kernel>(level, gate_up + part.begin * 2 * hidden, y + part.begin * hidden,
                                                    part.size(), hidden);
  });
}

/// The gradient of swiglu_forward; dgate_up may be gate_up. Moves 20 bytes an element of dy (f32), 10 (bf16).
template <Activation T>
void swiglu_backward(thread_pool& pool, const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows, std::int64_t hidden,
                     simd_level level = detect_simd_level()) {
  detail::for_rows(pool, rows, hidden, [&](index_range part) {
    detail::dispatch<detail::swiglu_backward_kernel>(level, gate_up + part.begin * 2 * hidden, dy + part.begin * hidden,
                                                     dgate_up + part.begin * 2 * hidden, part.size(), hidden);
  });
}

/// dbias[columns] += the column sums of dy [rows, columns]. Reads 4 bytes an element (f32), 2 (bf16). Goes through one
/// partial sum per block of rows, so the result does not depend on the number of threads.
template <Activation T>
void bias_gradient(thread_pool& pool, scratch& memory, const T* dy, float* dbias, std::int64_t rows, std::int64_t columns,
                   simd_level level = detect_simd_level()) {
  const std::int64_t blocks = detail::row_blocks(rows);
  const std::int64_t stride = (columns + 15) / 16 * 16;  // blocks write different cache lines
  auto frame = memory.open();
  auto* partials = frame.template take<float>(static_cast<std::size_t>(blocks * stride));
  detail::for_rows(pool, blocks, (rows + blocks - 1) / blocks * columns, [&](index_range part) {
    for (std::int64_t block = part.begin; block < part.end; ++block) {
      const index_range r = share_of(rows, static_cast<unsigned>(block), static_cast<unsigned>(blocks));
      std::fill_n(partials + block * stride, stride, 0.0F);
      detail::dispatch<detail::column_sum_kernel>(level, dy + r.begin * columns, partials + block * stride, r.size(),
                                                  columns, columns);
    }
  });
  detail::dispatch<detail::column_sum_kernel>(level, static_cast<const float*>(partials), dbias, blocks, columns, stride);
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ACTIVATION_HPP

// ---- causeway/kernels/attention_shape.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_SHAPE_HPP
#define CAUSEWAY_KERNELS_ATTENTION_SHAPE_HPP

// How the operands of attention lie in memory, on the host and on a device alike.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Sizes of one attention call. Token (b, t) is row b*T + t; head h starts h*head_size elements into the row; strides are
/// elements between rows, so q, k and v may be parts of one packed [batch*T, 3C] matrix. Query head h reads key and value
/// head h / (heads / kv_heads). `scale` (above 0) multiplies the scores, usually head_size^-1/2.
struct attention_shape {
  std::int64_t batch = 0;
  std::int64_t T = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t q_stride = 0;
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
  std::int64_t o_stride = 0;
  float scale = 1.0F;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ATTENTION_SHAPE_HPP

// ---- causeway/kernels/attention_tiles.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_TILES_HPP
#define CAUSEWAY_KERNELS_ATTENTION_TILES_HPP

// The small dense steps that attention is made of, for the portable and the AVX2 level. All operands are matrices of
// 32-bit units padded with zeros: a unit is one f32 here, two neighbouring bf16 in attention_tiles_avx512.hpp, and `pair`
// says how many values of the summed dimension it holds. Every step works on panels of 8 rows.
//   A operand, by rows:    [m][lda] units, the summed dimension contiguous
//   A operand, by columns: [k/pair][lda] units, the rows contiguous
//   B operand:             [n/32][k/pair][32] units
// Padding lets the products do without any edge case; a caller never looks at a padded result.

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>
#endif

// Loops over register arrays must be unrolled completely, or the arrays live in memory.
#if defined(__clang__)
#define CAUSEWAY_UNROLL _Pragma("clang loop unroll(full)")
#define CAUSEWAY_TARGET_AVX2_LOOPS CAUSEWAY_TARGET_AVX2
#else
#define CAUSEWAY_UNROLL _Pragma("GCC unroll 16")
#define CAUSEWAY_TARGET_AVX2_LOOPS __attribute__((optimize("O3"))) CAUSEWAY_TARGET_AVX2
#endif

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

inline constexpr std::int64_t panel_rows = 8;     ///< rows of one product step
inline constexpr std::int64_t tile_columns = 32;  ///< columns of one product step, or half of them
inline constexpr float log2_of_e = 1.44269504088896341F;

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

/// One head's rows of an activation: `rows` tokens of `columns` values, `stride` apart.
template <class Act>
struct head_view {
  Act* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] Act* row(std::int64_t i) const noexcept { return data + i * stride; }
  [[nodiscard]] head_view from(std::int64_t first, std::int64_t count) const noexcept {
    return {row(first), stride, std::min(count, rows - first), columns};
  }
};

/// What the softmax of a panel leaves behind.
struct softmax_rows {
  float inverse_sum[panel_rows];
  float logsumexp[panel_rows];
};

/// What the backward pass knows of a panel's rows: logsumexp in units of log 2 (infinite for padding rows, whose
/// probabilities so become zero) and sum(d_o * o).
struct gradient_rows {
  float logsumexp2[panel_rows];
  float correction[panel_rows];
};

/// 2^t for t below 128; 0 below -126. Relative error 1e-7.
CAUSEWAY_ALWAYS_INLINE float power_of_two(float t) noexcept {
  const float clamped = t > -126.0F ? (t < 127.0F ? t : 127.0F) : -126.0F;
  const float rounded = (clamped + 12582912.0F) - 12582912.0F;
  const float r = clamped - rounded;
  float p = 0.001327647129F;
  p = p * r + 0.009675540961F;
  p = p * r + 0.055507130921F;
  p = p * r + 0.240221202374F;
  p = p * r + 0.693146944046F;
  p = p * r + 1.00000012F;
  const float scale = std::bit_cast<float>((static_cast<std::int32_t>(rounded) + 127) << 23);
  return t < -126.0F ? 0.0F : p * scale;
}

// ---- loops for any level --------------------------------------------------------------------------------------------

template <class Act>
CAUSEWAY_ALWAYS_INLINE void pack_rows_loop(const head_view<const Act>& x, float* out, std::int64_t ld, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t n = i < x.rows ? x.columns : 0;
    const Act* row = x.row(i);
    for (std::int64_t j = 0; j < n; ++j) out[i * ld + j] = static_cast<float>(row[j]);
    for (std::int64_t j = n; j < ld; ++j) out[i * ld + j] = 0.0F;
  }
}

/// B operand whose columns are the tokens: sums run over the head.
template <class Act>
CAUSEWAY_ALWAYS_INLINE void pack_transposed_loop(const head_view<const Act>& x, float* out, std::int64_t depth,
                                                 std::int64_t tokens) {
  for (std::int64_t block = 0; block < tokens; block += tile_columns) {
    for (std::int64_t j = 0; j < tile_columns; ++j) {
      const bool real = block + j < x.rows;
      const Act* row = x.row(real ? block + j : 0);
      float* column = out + block * depth + j;
      for (std::int64_t p = 0; p < depth; ++p) {
        column[p * tile_columns] = real && p < x.columns ? static_cast<float>(row[p]) : 0.0F;
      }
    }
  }
}

/// B operand whose columns are the head: sums run over the tokens.
template <class Act>
CAUSEWAY_ALWAYS_INLINE void pack_tokens_loop(const head_view<const Act>& x, float* out, std::int64_t columns,
                                             std::int64_t tokens) {
  for (std::int64_t block = 0; block < columns; block += tile_columns) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t n = i < x.rows ? std::min(tile_columns, x.columns - block) : 0;
      const Act* row = x.row(n > 0 ? i : 0) + block;
      float* line = out + block * tokens + i * tile_columns;
      for (std::int64_t j = 0; j < n; ++j) line[j] = static_cast<float>(row[j]);
      for (std::int64_t j = std::max<std::int64_t>(n, 0); j < tile_columns; ++j) line[j] = 0.0F;
    }
  }
}

CAUSEWAY_ALWAYS_INLINE void softmax_loop(float* s, std::int64_t ld, std::int64_t first, float scale, float* p,
                                         std::int64_t ldp, softmax_rows& rows) {
  const float scale2 = scale * log2_of_e;
  const std::int64_t columns = rounded_up(first + panel_rows, 16);
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    float* line = s + i * ld;
    std::fill(line + first + i + 1, line + columns, -std::numeric_limits<float>::infinity());
    const float top = *std::max_element(line, line + columns);
    const float shift = -top * scale2;
    float sum = 0.0F;
    for (std::int64_t j = 0; j < columns; ++j) sum += p[i * ldp + j] = power_of_two(line[j] * scale2 + shift);
    rows.inverse_sum[i] = 1.0F / sum;
    rows.logsumexp[i] = top * scale + std::log(sum);
  }
}

CAUSEWAY_ALWAYS_INLINE void gradients_loop(const float* s, const float* dp, std::int64_t ld, std::int64_t first,
                                           std::int64_t columns, float scale, const gradient_rows& rows, float* p,
                                           float* ds, std::int64_t ldp) {
  const float scale2 = scale * log2_of_e;
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    const std::int64_t valid = std::min(first + i + 1, columns);
    const float shift = -rows.logsumexp2[i];
    const float correction = rows.correction[i];
    for (std::int64_t j = 0; j < valid; ++j) {
      const float probability = power_of_two(s[i * ld + j] * scale2 + shift);
      p[i * ldp + j] = probability;
      ds[i * ldp + j] = scale * probability * (dp[i * ld + j] - correction);
    }
    for (std::int64_t j = valid; j < columns; ++j) p[i * ldp + j] = ds[i * ldp + j] = 0.0F;
  }
}

template <class Act>
CAUSEWAY_ALWAYS_INLINE void store_rows_loop(const float* tile, std::int64_t ld, const head_view<Act>& out,
                                            const float* factors) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const float factor = factors == nullptr ? 1.0F : factors[i];
    Act* row = out.row(i);
    for (std::int64_t j = 0; j < out.columns; ++j) row[j] = static_cast<Act>(tile[i * ld + j] * factor);
  }
}

template <class Act>
CAUSEWAY_ALWAYS_INLINE void row_dots_loop(const head_view<const Act>& a, const head_view<const Act>& b, float* dots) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < a.columns; ++j) sum += static_cast<float>(a.row(i)[j]) * static_cast<float>(b.row(i)[j]);
    dots[i] = sum;
  }
}

/// c[8][width] (+)= sum over p of A(i, p) B(p, j), A(i, p) = a[i*row_step + p*sum_step].
CAUSEWAY_ALWAYS_INLINE void product_loop(std::int64_t depth, const float* a, std::int64_t row_step, std::int64_t sum_step,
                                         const float* b, float* c, std::int64_t ldc, std::int64_t width, bool accumulate) {
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    float sums[tile_columns] = {};
    for (std::int64_t p = 0; p < depth; ++p) {
      const float x = a[i * row_step + p * sum_step];
      for (std::int64_t j = 0; j < tile_columns; ++j) sums[j] += x * b[p * tile_columns + j];
    }
    for (std::int64_t j = 0; j < std::min(width, tile_columns); ++j)
      c[i * ldc + j] = (accumulate ? c[i * ldc + j] : 0.0F) + sums[j];
  }
}

/// The steps without any instruction set.
template <class Act>
struct portable_tiles {
  using unit = float;
  static constexpr std::int64_t pair = 1;

  static void pack_rows(head_view<const Act> x, unit* out, std::int64_t ld, std::int64_t rows) {
    pack_rows_loop(x, out, ld, rows);
  }
  static void pack_transposed(head_view<const Act> x, unit* out, std::int64_t depth, std::int64_t tokens) {
    pack_transposed_loop(x, out, depth, tokens);
  }
  static void pack_tokens(head_view<const Act> x, unit* out, std::int64_t columns, std::int64_t tokens) {
    pack_tokens_loop(x, out, columns, tokens);
  }
  static void product_by_rows(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                              std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_loop(depth, a, lda, 1, b, c, ldc, width, accumulate);
  }
  static void product_by_columns(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                                 std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_loop(depth, a, 1, lda, b, c, ldc, width, accumulate);
  }
  static void softmax(float* s, std::int64_t ld, std::int64_t first, float scale, unit* p, std::int64_t ldp,
                      softmax_rows& rows) {
    softmax_loop(s, ld, first, scale, p, ldp, rows);
  }
  static void gradients(const float* s, const float* dp, std::int64_t ld, std::int64_t first, std::int64_t columns,
                        float scale, const gradient_rows& rows, unit* p, unit* ds, std::int64_t ldp, unit*, std::int64_t) {
    gradients_loop(s, dp, ld, first, columns, scale, rows, p, ds, ldp);
  }
  static void store_rows(const float* tile, std::int64_t ld, head_view<Act> out, const float* factors) {
    store_rows_loop(tile, ld, out, factors);
  }
  static void row_dots(head_view<const Act> a, head_view<const Act> b, float* dots) { row_dots_loop(a, b, dots); }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ATTENTION_TILES_HPP

// ---- causeway/kernels/attention_forward.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_FORWARD_HPP
#define CAUSEWAY_KERNELS_ATTENTION_FORWARD_HPP

// Forward attention for one set of steps (`Tiles`, see attention_tiles.hpp). Keys and values of a head are packed once;
// then 8 queries at a time make all their scores, their exact softmax (two passes over a strip of 8 x T) and their output,
// which stays in registers over the whole sum. Every panel is computed alone, so the result does not depend on the threads.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

/// Rows of head `head` of sequence `b`.
template <class Act>
head_view<Act> head_of(const attention_shape& shape, Act* data, std::int64_t stride, std::int64_t b, std::int64_t head) {
  return {data + b * shape.T * stride + head * shape.head_size, stride, shape.T, shape.head_size};
}

/// How many threads share one (sequence, key head): one where the heads fill the threads evenly, all of them otherwise.
constexpr std::int64_t parts_per_head(const attention_shape& shape, std::int64_t threads) noexcept {
  const std::int64_t heads = shape.batch * shape.kv_heads;
  return heads % threads == 0 || heads >= 4 * threads ? 1 : threads;
}

/// Padded sizes, in values unless they say units.
template <class Tiles>
struct attention_sizes {
  std::int64_t depth;        ///< units of a head's row that hold something
  std::int64_t depth_units;  ///< the same, padded: units between rows
  std::int64_t width;        ///< a head's columns, padded to whole vectors
  std::int64_t columns;      ///< the same, padded to whole tiles: values between rows
  std::int64_t tokens;
  std::int64_t token_units;

  explicit attention_sizes(const attention_shape& shape)
      : depth{(shape.head_size + Tiles::pair - 1) / Tiles::pair},
        depth_units{rounded_up(depth, 16)},
        width{rounded_up(shape.head_size, 16)},
        columns{rounded_up(shape.head_size, tile_columns)},
        tokens{rounded_up(shape.T, tile_columns)},
        token_units{tokens / Tiles::pair} {}

  [[nodiscard]] std::int64_t by_head() const noexcept { return tokens * depth_units; }    ///< units of pack_transposed
  [[nodiscard]] std::int64_t by_token() const noexcept { return columns * token_units; }  ///< units of pack_tokens
};

/// C[8][columns] (+)= A B, tile by tile; `block` is the units between B's blocks of 32 columns.
template <class Tiles>
void multiply_by_rows(std::int64_t depth, const typename Tiles::unit* a, std::int64_t lda, const typename Tiles::unit* b,
                      std::int64_t block, float* c, std::int64_t ldc, std::int64_t columns, bool accumulate) {
  for (std::int64_t j = 0; j < columns; j += tile_columns) {
    Tiles::product_by_rows(depth, a, lda, b + j / tile_columns * block, c + j, ldc, columns - j, accumulate);
  }
}

/// The same with A by columns.
template <class Tiles>
void multiply_by_columns(std::int64_t depth, const typename Tiles::unit* a, std::int64_t lda, const typename Tiles::unit* b,
                         std::int64_t block, float* c, std::int64_t ldc, std::int64_t columns, bool accumulate) {
  for (std::int64_t j = 0; j < columns; j += tile_columns) {
    Tiles::product_by_columns(depth, a, lda, b + j / tile_columns * block, c + j, ldc, columns - j, accumulate);
  }
}

/// One thread's memory and its share of the forward pass.
template <class Tiles, class Act>
class forward_pass {
 public:
  using unit = typename Tiles::unit;

  forward_pass(const attention_shape& shape, scratch::frame& frame)
      : shape_{shape},
        sizes_{shape},
        keys_{take(frame, sizes_.by_head())},
        values_{take(frame, sizes_.by_token())},
        queries_{take(frame, panel_rows * sizes_.depth_units)},
        probabilities_{take(frame, panel_rows * strip())},
        scores_{frame.template take<float>(static_cast<std::size_t>(panel_rows * strip()))},
        output_{frame.template take<float>(static_cast<std::size_t>(panel_rows * sizes_.columns))} {}

  /// All query heads of key head `head`, panels part, part + parts, ...
  void run(const Act* q, const Act* k, const Act* v, Act* o, float* logsumexp, std::int64_t b, std::int64_t head,
           std::int64_t part, std::int64_t parts) {
    Tiles::pack_transposed(head_of(shape_, k, shape_.k_stride, b, head), keys_, sizes_.depth_units, sizes_.tokens);
    Tiles::pack_tokens(head_of(shape_, v, shape_.v_stride, b, head), values_, sizes_.columns, sizes_.tokens);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const auto queries = head_of(shape_, q, shape_.q_stride, b, h);
      const auto outputs = head_of(shape_, o, shape_.o_stride, b, h);
      float* sums = logsumexp + (b * shape_.heads + h) * shape_.T;
      for (std::int64_t t = part * panel_rows; t < shape_.T; t += parts * panel_rows) panel(queries, outputs, sums, t);
    }
  }

 private:
  static unit* take(scratch::frame& frame, std::int64_t units) {
    return frame.template take<unit>(static_cast<std::size_t>(units));
  }
  /// Values between the rows of a strip of scores; not a power of two, so that 8 rows do not share cache sets.
  [[nodiscard]] std::int64_t strip() const noexcept { return sizes_.tokens + 16; }

  void panel(const head_view<const Act>& queries, const head_view<Act>& outputs, float* logsumexp, std::int64_t t) {
    Tiles::pack_rows(queries.from(t, panel_rows), queries_, sizes_.depth_units, panel_rows);
    multiply_by_rows<Tiles>(sizes_.depth, queries_, sizes_.depth_units, keys_, tile_columns * sizes_.depth_units, scores_,
                            strip(), rounded_up(t + panel_rows, 16), false);
    softmax_rows rows;
    Tiles::softmax(scores_, strip(), t, shape_.scale, probabilities_, strip(), rows);
    multiply_by_rows<Tiles>((t + panel_rows) / Tiles::pair, probabilities_, strip(), values_,
                            tile_columns * sizes_.token_units, output_, sizes_.columns, sizes_.width, false);
    const auto out = outputs.from(t, panel_rows);
    Tiles::store_rows(output_, sizes_.columns, out, rows.inverse_sum);
    std::copy_n(rows.logsumexp, out.rows, logsumexp + t);
  }

  const attention_shape& shape_;
  attention_sizes<Tiles> sizes_;
  unit* keys_;
  unit* values_;
  unit* queries_;
  unit* probabilities_;
  float* scores_;
  float* output_;
};

template <class Tiles, class Act>
void attention_forward_with(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                            const Act* v, Act* o, float* logsumexp) {
  const std::int64_t threads = pool.size();
  const std::int64_t parts = parts_per_head(shape, threads);
  auto frame = memory.open();
  using pass = forward_pass<Tiles, Act>;
  static_assert(std::is_trivially_destructible_v<pass>);  // they live in scratch memory: a step allocates nothing
  pass* passes = frame.take<pass>(pool.size());
  for (std::int64_t i = 0; i < threads; ++i) std::construct_at(passes + i, shape, frame);
  pool.run([&](unsigned thread) {
    for (std::int64_t u = thread; u < shape.batch * shape.kv_heads * parts; u += threads) {
      const std::int64_t unit = u / parts;
      passes[thread].run(q, k, v, o, logsumexp, unit / shape.kv_heads, unit % shape.kv_heads, u % parts, parts);
    }
  });
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ATTENTION_FORWARD_HPP

// ---- causeway/kernels/attention_backward.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_BACKWARD_HPP
#define CAUSEWAY_KERNELS_ATTENTION_BACKWARD_HPP

// Backward attention for one set of steps (`Tiles`, see attention_tiles.hpp). With P the probabilities made again from
// logsumexp and D = sum(d_o * o) per row (Dao et al., FlashAttention, 2022, section 3.1):
//   dP = d_o vT,  dS = scale P (dP - D),  dv = PT d_o,  dk = dST q,  dq = dS k
// in blocks of 64 queries x 128 keys; blocks above the diagonal are skipped, and within the blocks on it whole panels.
// One thread sums dk and dv of a key head. Where heads are fewer than threads, each thread sums its own queries' share into
// a copy, and the copies are added in the order of the threads.

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

inline constexpr std::int64_t query_block = 64;
inline constexpr std::int64_t key_block = 128;
/// Values between rows of a block; not a power of two, so that a column of the block spreads over the cache sets.
inline constexpr std::int64_t block_stride = key_block + 16;

/// What one backward call reads and writes.
template <class Act>
struct backward_operands {
  const Act* q;
  const Act* k;
  const Act* v;
  const Act* o;
  const Act* d_o;
  const float* logsumexp;
  Act* dq;
  Act* dk;
  Act* dv;
};

/// One thread's memory and its share of the backward pass.
template <class Tiles, class Act>
class backward_pass {
 public:
  using unit = typename Tiles::unit;

  backward_pass(const attention_shape& shape, const backward_operands<Act>& operands, scratch::frame& frame)
      : shape_{shape},
        x_{operands},
        sizes_{shape},
        keys_by_head_{take(frame, sizes_.by_head())},
        values_by_head_{take(frame, sizes_.by_head())},
        keys_by_token_{take(frame, sizes_.by_token())},
        queries_{take(frame, query_block * sizes_.depth_units)},
        gradients_{take(frame, query_block * sizes_.depth_units)},
        queries_by_token_{take(frame, query_block / Tiles::pair * sizes_.columns)},
        gradients_by_token_{take(frame, query_block / Tiles::pair * sizes_.columns)},
        p_{take(frame, query_block / Tiles::pair * block_stride)},
        ds_{take(frame, query_block / Tiles::pair * block_stride)},
        ds_by_rows_{Tiles::pair == 1 ? ds_ : take(frame, query_block * block_stride)},
        scores_{floats(frame, 2 * panel_rows * block_stride)},
        dq_{floats(frame, query_block * sizes_.columns)} {}

  /// Adds this part's queries of key head `head` to dk and dv ([tokens][columns] each, overwritten) and writes their dq.
  void run(std::int64_t b, std::int64_t head, std::int64_t part, std::int64_t parts, float* dk, float* dv) {
    const auto keys = head_of(shape_, x_.k, shape_.k_stride, b, head);
    Tiles::pack_transposed(keys, keys_by_head_, sizes_.depth_units, sizes_.tokens);
    Tiles::pack_tokens(keys, keys_by_token_, sizes_.columns, sizes_.tokens);
    Tiles::pack_transposed(head_of(shape_, x_.v, shape_.v_stride, b, head), values_by_head_, sizes_.depth_units,
                           sizes_.tokens);
    std::fill_n(dk, sizes_.tokens * sizes_.columns, 0.0F);
    std::fill_n(dv, sizes_.tokens * sizes_.columns, 0.0F);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      for (std::int64_t i = 0; i * query_block < shape_.T; ++i) {
        // Later blocks cost more, so they are dealt out back and forth.
        const std::int64_t turn = i / parts % 2 == 0 ? i % parts : parts - 1 - i % parts;
        if (turn == part) queries(b, h, i * query_block, dk, dv);
      }
    }
  }

 private:
  static unit* take(scratch::frame& frame, std::int64_t units) {
    return frame.template take<unit>(static_cast<std::size_t>(units));
  }
  static float* floats(scratch::frame& frame, std::int64_t count) {
    return frame.template take<float>(static_cast<std::size_t>(count));
  }

  /// One block of queries against all keys they see.
  void queries(std::int64_t b, std::int64_t h, std::int64_t first, float* dk, float* dv) {
    const auto q = head_of(shape_, x_.q, shape_.q_stride, b, h).from(first, query_block);
    const auto d_o = head_of(shape_, x_.d_o, shape_.o_stride, b, h).from(first, query_block);
    rows_ = rounded_up(q.rows, panel_rows);
    Tiles::pack_rows(q, queries_, sizes_.depth_units, rows_);
    Tiles::pack_rows(d_o, gradients_, sizes_.depth_units, rows_);
    Tiles::pack_tokens(q, queries_by_token_, sizes_.columns, query_block);
    Tiles::pack_tokens(d_o, gradients_by_token_, sizes_.columns, query_block);
    row_constants(b, h, first, head_of(shape_, x_.o, shape_.o_stride, b, h).from(first, query_block), d_o);
    for (std::int64_t key = 0; key < first + rows_; key += key_block) {
      probabilities(first, key);
      key_gradients(first, key, dk, dv);
      query_gradients(first, key);
    }
    Tiles::store_rows(dq_, sizes_.columns, head_of(shape_, x_.dq, shape_.q_stride, b, h).from(first, query_block), nullptr);
  }

  void row_constants(std::int64_t b, std::int64_t h, std::int64_t first, const head_view<const Act>& o,
                     const head_view<const Act>& d_o) {
    float dots[query_block] = {};
    Tiles::row_dots(o, d_o, dots);
    const float* sums = x_.logsumexp + (b * shape_.heads + h) * shape_.T + first;
    for (std::int64_t i = 0; i < rows_; ++i) {
      gradient_rows& panel = constants_[i / panel_rows];
      panel.logsumexp2[i % panel_rows] = i < o.rows ? sums[i] * log2_of_e : std::numeric_limits<float>::infinity();
      panel.correction[i % panel_rows] = dots[i];
    }
  }

  /// p_ and ds_ for keys [key, key + 128), as far as the queries see them.
  void probabilities(std::int64_t first, std::int64_t key) {
    float* dp = scores_ + panel_rows * block_stride;
    const std::int64_t block = tile_columns * sizes_.depth_units;
    for (std::int64_t i = 0; i < rows_; i += panel_rows) {
      const std::int64_t offset = first + i - key;
      const std::int64_t columns = std::min(key_block, rounded_up(offset + panel_rows, 16));
      multiply_by_rows<Tiles>(sizes_.depth, queries_ + i * sizes_.depth_units, sizes_.depth_units,
                              keys_by_head_ + key * sizes_.depth_units, block, scores_, block_stride, columns, false);
      multiply_by_rows<Tiles>(sizes_.depth, gradients_ + i * sizes_.depth_units, sizes_.depth_units,
                              values_by_head_ + key * sizes_.depth_units, block, dp, block_stride, columns, false);
      Tiles::gradients(scores_, dp, block_stride, offset, columns, shape_.scale, constants_[i / panel_rows],
                       p_ + i / Tiles::pair * block_stride, ds_ + i / Tiles::pair * block_stride, block_stride,
                       ds_by_rows_ + i * block_stride, block_stride);
    }
  }

  /// dv += PT d_o and dk += dST q for the block's keys; a panel of keys starts at the first query that sees it.
  void key_gradients(std::int64_t first, std::int64_t key, float* dk, float* dv) {
    const std::int64_t last = std::min(key + key_block, first + rows_);
    for (std::int64_t j = key; j < last; j += panel_rows) {
      const std::int64_t start = std::max<std::int64_t>(0, j - first) / Tiles::pair;
      const std::int64_t depth = rows_ / Tiles::pair - start;
      const std::int64_t column = start * block_stride + j - key;
      const std::int64_t block = query_block / Tiles::pair * tile_columns;
      multiply_by_columns<Tiles>(depth, p_ + column, block_stride, gradients_by_token_ + start * tile_columns, block,
                                 dv + j * sizes_.columns, sizes_.columns, sizes_.width, true);
      multiply_by_columns<Tiles>(depth, ds_ + column, block_stride, queries_by_token_ + start * tile_columns, block,
                                 dk + j * sizes_.columns, sizes_.columns, sizes_.width, true);
    }
  }

  /// dq_ (+)= dS k over the block's keys.
  void query_gradients(std::int64_t first, std::int64_t key) {
    for (std::int64_t i = 0; i < rows_; i += panel_rows) {
      const std::int64_t depth = std::min(key_block, first + i + panel_rows - key) / Tiles::pair;
      multiply_by_rows<Tiles>(depth, ds_by_rows_ + i * block_stride, block_stride,
                              keys_by_token_ + key / Tiles::pair * tile_columns, tile_columns * sizes_.token_units,
                              dq_ + i * sizes_.columns, sizes_.columns, sizes_.width, key != 0);
    }
  }

  const attention_shape& shape_;
  const backward_operands<Act>& x_;
  attention_sizes<Tiles> sizes_;
  unit* keys_by_head_;
  unit* values_by_head_;
  unit* keys_by_token_;
  unit* queries_;
  unit* gradients_;
  unit* queries_by_token_;
  unit* gradients_by_token_;
  unit* p_;
  unit* ds_;
  unit* ds_by_rows_;
  float* scores_;
  float* dq_;
  std::int64_t rows_ = 0;  ///< queries of the current block, in whole panels
  gradient_rows constants_[query_block / panel_rows] = {};
};

/// Adds the parts' sums into the first one's, over rows [part's share) of the tokens, and stores them.
template <class Tiles, class Act>
void store_sums(float* sums, std::int64_t part_size, std::int64_t parts, std::int64_t columns, const head_view<Act>& out,
                index_range tokens) {
  for (std::int64_t part = 1; part < parts; ++part) {
    const float* other = sums + part * part_size;
    for (std::int64_t i = tokens.begin * columns; i < tokens.end * columns; ++i) sums[i] += other[i];
  }
  if (tokens.size() > 0) {
    Tiles::store_rows(sums + tokens.begin * columns, columns, out.from(tokens.begin, tokens.size()), nullptr);
  }
}

template <class Tiles, class Act>
void attention_backward_with(thread_pool& pool, scratch& memory, const attention_shape& shape,
                             const backward_operands<Act>& operands) {
  const std::int64_t threads = pool.size();
  const std::int64_t parts = parts_per_head(shape, threads);
  const attention_sizes<Tiles> sizes{shape};
  const std::int64_t size = sizes.tokens * sizes.columns;
  auto frame = memory.open();
  using pass = backward_pass<Tiles, Act>;
  static_assert(std::is_trivially_destructible_v<pass>);  // they live in scratch memory: a step allocates nothing
  pass* passes = frame.take<pass>(pool.size());
  for (std::int64_t i = 0; i < threads; ++i) std::construct_at(passes + i, shape, operands, frame);
  float* dk = frame.take<float>(static_cast<std::size_t>(threads * size));
  float* dv = frame.take<float>(static_cast<std::size_t>(threads * size));
  const auto store = [&](std::int64_t head, std::int64_t first_copy, index_range tokens) {
    const std::int64_t b = head / shape.kv_heads;
    const std::int64_t h = head % shape.kv_heads;
    store_sums<Tiles>(dk + first_copy * size, size, parts, sizes.columns, head_of(shape, operands.dk, shape.k_stride, b, h),
                      tokens);
    store_sums<Tiles>(dv + first_copy * size, size, parts, sizes.columns, head_of(shape, operands.dv, shape.v_stride, b, h),
                      tokens);
  };
  const std::int64_t heads = shape.batch * shape.kv_heads;
  if (parts == 1) {
    pool.run([&](unsigned thread) {
      for (std::int64_t head = thread; head < heads; head += threads) {
        passes[thread].run(head / shape.kv_heads, head % shape.kv_heads, 0, 1, dk + thread * size, dv + thread * size);
        store(head, thread, {0, shape.T});
      }
    });
    return;
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    pool.run([&](unsigned thread) {
      passes[thread].run(head / shape.kv_heads, head % shape.kv_heads, thread, parts, dk + thread * size,
                         dv + thread * size);
    });
    pool.run([&](unsigned thread) { store(head, 0, share_of(shape.T, thread, pool.size())); });
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ATTENTION_BACKWARD_HPP

// ---- causeway/kernels/attention_tiles_avx2.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_TILES_AVX2_HPP
#define CAUSEWAY_KERNELS_ATTENTION_TILES_AVX2_HPP

// The steps of attention_tiles.hpp for AVX2: by hand where the compiler does not vectorise, the rest from the loops of the
// portable level.

#if CAUSEWAY_X86_SIMD

#include <immintrin.h>

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// c[4][16] (+)= A B: 8 sums, 2 columns and a row's value fill 11 of the 16 registers.
template <bool ByRows>
CAUSEWAY_ALWAYS_INLINE CAUSEWAY_TARGET_AVX2 void product4x16(std::int64_t depth, const float* a, std::int64_t lda,
                                                             const float* b, float* c, std::int64_t ldc, bool accumulate) {
  __m256 sums[4][2];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    sums[i][0] = accumulate ? _mm256_loadu_ps(c + i * ldc) : _mm256_setzero_ps();
    sums[i][1] = accumulate ? _mm256_loadu_ps(c + i * ldc + 8) : _mm256_setzero_ps();
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    const __m256 left = _mm256_loadu_ps(b + p * tile_columns);
    const __m256 right = _mm256_loadu_ps(b + p * tile_columns + 8);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 4; ++i) {
      const __m256 x = _mm256_broadcast_ss(ByRows ? a + i * lda + p : a + p * lda + i);
      sums[i][0] = _mm256_fmadd_ps(x, left, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(x, right, sums[i][1]);
    }
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(c + i * ldc, sums[i][0]);
    _mm256_storeu_ps(c + i * ldc + 8, sums[i][1]);
  }
}

/// c[8][width] (+)= A B.
template <bool ByRows>
CAUSEWAY_TARGET_AVX2 void product_avx2(std::int64_t depth, const float* a, std::int64_t lda, const float* b, float* c,
                                       std::int64_t ldc, std::int64_t width, bool accumulate) {
  const std::int64_t columns = width > 16 ? 32 : 16;
  for (std::int64_t i = 0; i < panel_rows; i += 4) {
    const float* rows = ByRows ? a + i * lda : a + i;
    for (std::int64_t j = 0; j < columns; j += 16) {
      product4x16<ByRows>(depth, rows, lda, b + j, c + i * ldc + j, ldc, accumulate);
    }
  }
}

#define CAUSEWAY_INLINE_AVX2 CAUSEWAY_ALWAYS_INLINE CAUSEWAY_TARGET_AVX2

/// 2^t for t below 128; 0 below -126. Relative error 1e-7.
CAUSEWAY_INLINE_AVX2 __m256 power_of_two(__m256 t) {
  const __m256 lowest = _mm256_set1_ps(-126.0F);
  const __m256 kept = _mm256_cmp_ps(t, lowest, _CMP_NLT_UQ);  // a NaN is kept
  const __m256 clamped = _mm256_min_ps(_mm256_set1_ps(127.0F), _mm256_max_ps(lowest, t));
  const __m256 rounded = _mm256_round_ps(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 r = _mm256_sub_ps(clamped, rounded);
  __m256 p = _mm256_set1_ps(0.001327647129F);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.009675540961F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.055507130921F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.240221202374F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.693146944046F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.00000012F));
  const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(rounded), _mm256_set1_epi32(127)), 23);
  return _mm256_and_ps(kept, _mm256_mul_ps(p, _mm256_castsi256_ps(exponent)));
}

/// All ones in the lanes below `count`.
CAUSEWAY_INLINE_AVX2 __m256 lanes8(std::int64_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto limit = static_cast<int>(std::clamp<std::int64_t>(count, 0, 8));
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(limit), index));
}

template <bool Maximum>
CAUSEWAY_INLINE_AVX2 float reduce8(__m256 v) {
  alignas(32) float x[8];
  _mm256_store_ps(x, v);
  float all = x[0];
  for (int i = 1; i < 8; ++i) all = Maximum ? std::max(all, x[i]) : all + x[i];
  return all;
}

CAUSEWAY_INLINE_AVX2 __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
CAUSEWAY_INLINE_AVX2 __m256 load8(const bf16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/// out[p*ld + j] = x.row(first + j)[column + p] for 8 x 8 values.
template <class Act>
CAUSEWAY_INLINE_AVX2 void transpose8(const head_view<const Act>& x, std::int64_t first, std::int64_t column, float* out,
                                     std::int64_t ld) {
  __m256 r[8];
  __m256 t[8];
  CAUSEWAY_UNROLL
  for (int j = 0; j < 8; ++j) r[j] = load8(x.row(first + j) + column);
  CAUSEWAY_UNROLL
  for (int j = 0; j < 8; j += 2) {
    t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
    t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
  }
  CAUSEWAY_UNROLL
  for (int j = 0; j < 8; j += 4) {
    r[j] = _mm256_shuffle_ps(t[j], t[j + 2], 0x44);
    r[j + 1] = _mm256_shuffle_ps(t[j], t[j + 2], 0xEE);
    r[j + 2] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0x44);
    r[j + 3] = _mm256_shuffle_ps(t[j + 1], t[j + 3], 0xEE);
  }
  CAUSEWAY_UNROLL
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(out + j * ld, _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
    _mm256_storeu_ps(out + (j + 4) * ld, _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
  }
}

/// Whole squares of 8 through registers, the rest value by value.
template <class Act>
CAUSEWAY_TARGET_AVX2 void pack_transposed_avx2(const head_view<const Act>& x, float* out, std::int64_t depth,
                                               std::int64_t tokens) {
  for (std::int64_t t = 0; t < tokens; t += 8) {
    float* column = out + t / tile_columns * tile_columns * depth + t % tile_columns;
    std::int64_t p = 0;
    if (t + 8 <= x.rows) {
      for (; p + 8 <= x.columns; p += 8) transpose8(x, t, p, column + p * tile_columns, tile_columns);
    }
    for (; p < depth; ++p) {
      for (std::int64_t j = 0; j < 8; ++j) {
        const bool real = t + j < x.rows && p < x.columns;
        column[p * tile_columns + j] = real ? static_cast<float>(x.row(t + j)[p]) : 0.0F;
      }
    }
  }
}

template <class Act>
CAUSEWAY_TARGET_AVX2 void row_dots_avx2(const head_view<const Act>& a, const head_view<const Act>& b, float* dots) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    __m256 sums = _mm256_setzero_ps();
    std::int64_t j = 0;
    for (; j + 8 <= a.columns; j += 8) sums = _mm256_fmadd_ps(load8(a.row(i) + j), load8(b.row(i) + j), sums);
    float sum = reduce8<false>(sums);
    for (; j < a.columns; ++j) sum += static_cast<float>(a.row(i)[j]) * static_cast<float>(b.row(i)[j]);
    dots[i] = sum;
  }
}

CAUSEWAY_TARGET_AVX2 inline void softmax_avx2(const float* s, std::int64_t ld, std::int64_t first, float scale, float* p,
                                              std::int64_t ldp, softmax_rows& rows) {
  const __m256 scale2 = _mm256_set1_ps(scale * log2_of_e);
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  const std::int64_t columns = rounded_up(first + panel_rows, 16);
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    const float* line = s + i * ld;
    const std::int64_t valid = first + i + 1;
    __m256 tops = lowest;
    for (std::int64_t j = 0; j < columns; j += 8) {
      tops = _mm256_max_ps(tops, _mm256_blendv_ps(lowest, _mm256_loadu_ps(line + j), lanes8(valid - j)));
    }
    const float top = reduce8<true>(tops);
    const __m256 shift = _mm256_mul_ps(_mm256_set1_ps(-top), scale2);
    __m256 sums = _mm256_setzero_ps();
    for (std::int64_t j = 0; j < columns; j += 8) {
      const __m256 t = _mm256_fmadd_ps(_mm256_loadu_ps(line + j), scale2, shift);
      const __m256 e = _mm256_and_ps(power_of_two(t), lanes8(valid - j));
      sums = _mm256_add_ps(sums, e);
      _mm256_storeu_ps(p + i * ldp + j, e);
    }
    const float sum = reduce8<false>(sums);
    rows.inverse_sum[i] = 1.0F / sum;
    rows.logsumexp[i] = top * scale + std::log(sum);
  }
}

CAUSEWAY_TARGET_AVX2 inline void gradients_avx2(const float* s, const float* dp, std::int64_t ld, std::int64_t first,
                                                std::int64_t columns, float scale, const gradient_rows& rows, float* p,
                                                float* ds, std::int64_t ldp) {
  const __m256 scale2 = _mm256_set1_ps(scale * log2_of_e);
  for (std::int64_t i = 0; i < panel_rows; ++i) {
    const __m256 shift = _mm256_set1_ps(rows.logsumexp2[i]);
    const __m256 correction = _mm256_set1_ps(rows.correction[i]);
    for (std::int64_t j = 0; j < columns; j += 8) {
      const __m256 t = _mm256_fmsub_ps(_mm256_loadu_ps(s + i * ld + j), scale2, shift);
      const __m256 e = _mm256_and_ps(power_of_two(t), lanes8(first + i + 1 - j));
      const __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(dp + i * ld + j), correction);
      _mm256_storeu_ps(p + i * ldp + j, e);
      _mm256_storeu_ps(ds + i * ldp + j, _mm256_mul_ps(_mm256_mul_ps(e, _mm256_set1_ps(scale)), difference));
    }
  }
}

/// The AVX2 steps.
template <class Act>
struct avx2_tiles {
  using unit = float;
  static constexpr std::int64_t pair = 1;

  static CAUSEWAY_TARGET_AVX2_LOOPS void pack_rows(head_view<const Act> x, unit* out, std::int64_t ld, std::int64_t rows) {
    pack_rows_loop(x, out, ld, rows);
  }
  static void pack_transposed(head_view<const Act> x, unit* out, std::int64_t depth, std::int64_t tokens) {
    pack_transposed_avx2(x, out, depth, tokens);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void pack_tokens(head_view<const Act> x, unit* out, std::int64_t columns,
                                                     std::int64_t tokens) {
    pack_tokens_loop(x, out, columns, tokens);
  }
  static void product_by_rows(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                              std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_avx2<true>(depth, a, lda, b, c, ldc, width, accumulate);
  }
  static void product_by_columns(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                                 std::int64_t ldc, std::int64_t width, bool accumulate) {
    product_avx2<false>(depth, a, lda, b, c, ldc, width, accumulate);
  }
  static void softmax(float* s, std::int64_t ld, std::int64_t first, float scale, unit* p, std::int64_t ldp,
                      softmax_rows& rows) {
    softmax_avx2(s, ld, first, scale, p, ldp, rows);
  }
  static void gradients(const float* s, const float* dp, std::int64_t ld, std::int64_t first, std::int64_t columns,
                        float scale, const gradient_rows& rows, unit* p, unit* ds, std::int64_t ldp, unit*, std::int64_t) {
    gradients_avx2(s, dp, ld, first, columns, scale, rows, p, ds, ldp);
  }
  static CAUSEWAY_TARGET_AVX2_LOOPS void store_rows(const float* tile, std::int64_t ld, head_view<Act> out,
                                                    const float* factors) {
    store_rows_loop(tile, ld, out, factors);
  }
  static void row_dots(head_view<const Act> a, head_view<const Act> b, float* dots) { row_dots_avx2(a, b, dots); }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_ATTENTION_TILES_AVX2_HPP

// ---- causeway/kernels/attention_tiles_avx512.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_TILES_AVX512_HPP
#define CAUSEWAY_KERNELS_ATTENTION_TILES_AVX512_HPP

// The steps of attention_tiles.hpp in AVX-512: `avx512_tiles` multiplies f32, `avx512_bf16_tiles` pairs of bf16 with sums
// in f32. Edges are handled by masks while packing; the products have none.

#if CAUSEWAY_X86_SIMD

#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC bug 105593: its own intrinsics start from `__Y = __Y`
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define CAUSEWAY_INLINE_AVX512 CAUSEWAY_ALWAYS_INLINE CAUSEWAY_TARGET_AVX512
#define CAUSEWAY_INLINE_AVX512_BF16 CAUSEWAY_ALWAYS_INLINE CAUSEWAY_TARGET_AVX512_BF16

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// The lanes below `count` of 16 and of 32.
CAUSEWAY_ALWAYS_INLINE std::uint16_t lanes16(std::int64_t count) {
  return static_cast<std::uint16_t>(count >= 16 ? 0xFFFFU : count <= 0 ? 0U : (1U << count) - 1U);
}
CAUSEWAY_ALWAYS_INLINE std::uint32_t lanes32(std::int64_t count) {
  return count >= 32 ? ~0U : count <= 0 ? 0U : (1U << count) - 1U;
}

/// Up to 16 values as f32, zeros beyond `count`.
CAUSEWAY_INLINE_AVX512 __m512 load_f32(const float* p, std::int64_t count) {
  return _mm512_maskz_loadu_ps(lanes16(count), p);
}
CAUSEWAY_INLINE_AVX512 __m512 load_f32(const bf16* p, std::int64_t count) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes16(count), p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
CAUSEWAY_INLINE_AVX512 void store_f32(float* p, __m512 v, std::int64_t count) {
  _mm512_mask_storeu_ps(p, lanes16(count), v);
}
/// Rounds to nearest even; NaN stays NaN.
CAUSEWAY_INLINE_AVX512 void store_f32(bf16* p, __m512 v, std::int64_t count) {
  const __m512i u = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
  _mm256_mask_storeu_epi16(p, lanes16(count), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

/// 2^t for any t: 0 far below, infinite far above. Relative error 1e-7.
CAUSEWAY_INLINE_AVX512 __m512 power_of_two(__m512 t) {
  const __m512 r = _mm512_reduce_ps(t, 0);  // t - nearest integer
  __m512 p = _mm512_set1_ps(0.001327647129F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.009675540961F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.055507130921F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240221202374F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693146944046F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.00000012F));
  return _mm512_scalef_ps(p, _mm512_sub_ps(t, r));
}

/// rows[j][i] of 16 x 16 units becomes out[i*ld + j].
CAUSEWAY_INLINE_AVX512 void transpose16(__m512i (&r)[16], void* out, std::int64_t ld) {
  __m512i t[16];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xDD);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xDD);
  }
  float* base = static_cast<float*>(out);
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    _mm512_storeu_si512(base + i * ld, _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88));
    _mm512_storeu_si512(base + (8 + i) * ld, _mm512_shuffle_i32x4(t[i], t[8 + i], 0xDD));
    _mm512_storeu_si512(base + (4 + i) * ld, _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88));
    _mm512_storeu_si512(base + (12 + i) * ld, _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xDD));
  }
}

/// A loader reads 16 units of a row: `at(row, first value, values in the row)`.
template <class Act>
struct f32_units {
  static CAUSEWAY_INLINE_AVX512 __m512i at(const Act* row, std::int64_t first, std::int64_t columns) {
    return _mm512_castps_si512(load_f32(row + first, columns - first));
  }
};
struct bf16_units {
  static CAUSEWAY_INLINE_AVX512 __m512i at(const bf16* row, std::int64_t first, std::int64_t columns) {
    return _mm512_maskz_loadu_epi16(lanes32(columns - first), row + first);
  }
};

template <class Units, std::int64_t Pair, class Act>
CAUSEWAY_TARGET_AVX512 void pack_rows_avx512(const head_view<const Act>& x, void* out, std::int64_t ld, std::int64_t rows) {
  float* line = static_cast<float*>(out);
  for (std::int64_t i = 0; i < rows; ++i, line += ld) {
    const bool real = i < x.rows;
    for (std::int64_t j = 0; j < ld; j += 16) {
      const __m512i v = real ? Units::at(x.row(i), j * Pair, x.columns) : _mm512_setzero_si512();
      _mm512_mask_storeu_epi32(line + j, lanes16(ld - j), v);
    }
  }
}

/// `depth` and `tokens` are multiples of 16 and 32.
template <class Units, std::int64_t Pair, class Act>
CAUSEWAY_TARGET_AVX512 void pack_transposed_avx512(const head_view<const Act>& x, void* out, std::int64_t depth,
                                                   std::int64_t tokens) {
  for (std::int64_t t = 0; t < tokens; t += 16) {
    float* column = static_cast<float*>(out) + t / tile_columns * tile_columns * depth + t % tile_columns;
    for (std::int64_t p = 0; p < depth; p += 16) {
      __m512i r[16];
      CAUSEWAY_UNROLL
      for (int j = 0; j < 16; ++j) {
        r[j] = t + j < x.rows ? Units::at(x.row(t + j), p * Pair, x.columns) : _mm512_setzero_si512();
      }
      transpose16(r, column + p * tile_columns, tile_columns);
    }
  }
}

template <class Act>
CAUSEWAY_TARGET_AVX512 void store_rows_avx512(const float* tile, std::int64_t ld, const head_view<Act>& out,
                                              const float* factors) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const __m512 factor = _mm512_set1_ps(factors == nullptr ? 1.0F : factors[i]);
    Act* row = out.row(i);
    for (std::int64_t j = 0; j < out.columns; j += 16) {
      store_f32(row + j, _mm512_mul_ps(factor, _mm512_loadu_ps(tile + i * ld + j)), out.columns - j);
    }
  }
}

template <class Act>
CAUSEWAY_TARGET_AVX512 void row_dots_avx512(const head_view<const Act>& a, const head_view<const Act>& b, float* dots) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    __m512 sum = _mm512_setzero_ps();
    for (std::int64_t j = 0; j < a.columns; j += 16) {
      sum = _mm512_fmadd_ps(load_f32(a.row(i) + j, a.columns - j), load_f32(b.row(i) + j, a.columns - j), sum);
    }
    dots[i] = _mm512_reduce_add_ps(sum);
  }
}

/// One row of a softmax: probabilities times their sum are handed to `put(column, values)`.
CAUSEWAY_INLINE_AVX512 float row_maximum(const float* line, std::int64_t vectors, __mmask16 last) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 top = _mm512_mask_loadu_ps(lowest, last, line + (vectors - 1) * 16);
  for (std::int64_t v = 0; v + 1 < vectors; ++v) top = _mm512_max_ps(top, _mm512_loadu_ps(line + v * 16));
  return _mm512_reduce_max_ps(top);
}

/// The AVX-512 steps in f32.
template <class Act>
struct avx512_tiles {
  using unit = float;
  static constexpr std::int64_t pair = 1;

  static void pack_rows(head_view<const Act> x, unit* out, std::int64_t ld, std::int64_t rows) {
    pack_rows_avx512<f32_units<Act>, 1>(x, out, ld, rows);
  }
  static void pack_transposed(head_view<const Act> x, unit* out, std::int64_t depth, std::int64_t tokens) {
    pack_transposed_avx512<f32_units<Act>, 1>(x, out, depth, tokens);
  }
  static CAUSEWAY_TARGET_AVX512 void pack_tokens(head_view<const Act> x, unit* out, std::int64_t columns,
                                                 std::int64_t tokens) {
    for (std::int64_t j = 0; j < columns; j += 16) {
      float* line = out + j / tile_columns * tile_columns * tokens + j % tile_columns;
      for (std::int64_t i = 0; i < tokens; ++i) {
        const bool real = i < x.rows;
        _mm512_storeu_ps(line + i * tile_columns, real ? load_f32(x.row(i) + j, x.columns - j) : _mm512_setzero_ps());
      }
    }
  }

  /// RowStep and SumStep are `lda` or, for 0, one unit.
  template <int Vectors, bool ByRows>
  static CAUSEWAY_INLINE_AVX512 void product(std::int64_t depth, const float* a, std::int64_t lda, const float* b, float* c,
                                             std::int64_t ldc, bool accumulate) {
    __m512 sums[panel_rows][Vectors];
    CAUSEWAY_UNROLL
    for (int i = 0; i < panel_rows; ++i) {
      CAUSEWAY_UNROLL
      for (int v = 0; v < Vectors; ++v)
        sums[i][v] = accumulate ? _mm512_loadu_ps(c + i * ldc + 16 * v) : _mm512_setzero_ps();
    }
    for (std::int64_t p = 0; p < depth; ++p) {
      __m512 columns[Vectors];
      CAUSEWAY_UNROLL
      for (int v = 0; v < Vectors; ++v) columns[v] = _mm512_loadu_ps(b + p * tile_columns + 16 * v);
      CAUSEWAY_UNROLL
      for (int i = 0; i < panel_rows; ++i) {
        const __m512 x = _mm512_set1_ps(ByRows ? a[i * lda + p] : a[p * lda + i]);
        CAUSEWAY_UNROLL
        for (int v = 0; v < Vectors; ++v) sums[i][v] = _mm512_fmadd_ps(x, columns[v], sums[i][v]);
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < panel_rows; ++i) {
      CAUSEWAY_UNROLL
      for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(c + i * ldc + 16 * v, sums[i][v]);
    }
  }
  static CAUSEWAY_TARGET_AVX512 void product_by_rows(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b,
                                                     float* c, std::int64_t ldc, std::int64_t width, bool accumulate) {
    if (width > 16) {
      product<2, true>(depth, a, lda, b, c, ldc, accumulate);
    } else {
      product<1, true>(depth, a, lda, b, c, ldc, accumulate);
    }
  }
  static CAUSEWAY_TARGET_AVX512 void product_by_columns(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b,
                                                        float* c, std::int64_t ldc, std::int64_t width, bool accumulate) {
    if (width > 16) {
      product<2, false>(depth, a, lda, b, c, ldc, accumulate);
    } else {
      product<1, false>(depth, a, lda, b, c, ldc, accumulate);
    }
  }

  static CAUSEWAY_TARGET_AVX512 void softmax(float* s, std::int64_t ld, std::int64_t first, float scale, unit* p,
                                             std::int64_t ldp, softmax_rows& rows) {
    const __m512 scale2 = _mm512_set1_ps(scale * log2_of_e);
    const std::int64_t vectors = first / 16 + 1;
    for (std::int64_t i = 0; i < panel_rows; ++i) {
      float* line = s + i * ld;
      const __mmask16 last = lanes16(first % 16 + i + 1);
      const float top = row_maximum(line, vectors, last);
      const __m512 shift = _mm512_mul_ps(_mm512_set1_ps(-top), scale2);
      __m512 sum = _mm512_setzero_ps();
      for (std::int64_t v = 0; v < vectors; ++v) {
        const __m512 t = _mm512_fmadd_ps(_mm512_loadu_ps(line + v * 16), scale2, shift);
        const __m512 e = _mm512_maskz_mov_ps(v + 1 < vectors ? 0xFFFFU : last, power_of_two(t));
        sum = _mm512_add_ps(sum, e);
        _mm512_storeu_ps(p + i * ldp + v * 16, e);
      }
      const float total = _mm512_reduce_add_ps(sum);
      rows.inverse_sum[i] = 1.0F / total;
      rows.logsumexp[i] = top * scale + std::log(total);
    }
  }

  static CAUSEWAY_TARGET_AVX512 void gradients(const float* s, const float* dp, std::int64_t ld, std::int64_t first,
                                               std::int64_t columns, float scale, const gradient_rows& rows, unit* p,
                                               unit* ds, std::int64_t ldp, unit*, std::int64_t) {
    const __m512 scale2 = _mm512_set1_ps(scale * log2_of_e);
    for (std::int64_t i = 0; i < panel_rows; ++i) {
      const __m512 shift = _mm512_set1_ps(-rows.logsumexp2[i]);
      const __m512 correction = _mm512_set1_ps(rows.correction[i]);
      for (std::int64_t j = 0; j < columns; j += 16) {
        const __m512 t = _mm512_fmadd_ps(_mm512_loadu_ps(s + i * ld + j), scale2, shift);
        const __m512 e = _mm512_maskz_mov_ps(lanes16(first + i + 1 - j), power_of_two(t));
        const __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(dp + i * ld + j), correction);
        _mm512_storeu_ps(p + i * ldp + j, e);
        _mm512_storeu_ps(ds + i * ldp + j, _mm512_mul_ps(_mm512_mul_ps(e, _mm512_set1_ps(scale)), difference));
      }
    }
  }

  static void store_rows(const float* tile, std::int64_t ld, head_view<Act> out, const float* factors) {
    store_rows_avx512(tile, ld, out, factors);
  }
  static void row_dots(head_view<const Act> a, head_view<const Act> b, float* dots) { row_dots_avx512(a, b, dots); }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_ATTENTION_TILES_AVX512_HPP

// ---- causeway/kernels/attention_tiles_bf16.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_TILES_BF16_HPP
#define CAUSEWAY_KERNELS_ATTENTION_TILES_BF16_HPP

// The steps of attention_tiles.hpp with AVX-512's bf16 dot product: a unit is two values that are neighbours in the summed
// dimension, sums are in f32. Probabilities and their gradients are rounded to bf16 before they are multiplied.

#if CAUSEWAY_X86_SIMD

#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC bug 105593: its own intrinsics start from `__Y = __Y`
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// 32 bf16: `low` rounded in the lower half, `high` in the upper one.
CAUSEWAY_INLINE_AVX512_BF16 __m512i round_two(__m512 low, __m512 high) {
  const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
  __m512i bits;
  __builtin_memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

/// Turns [16 of row 0 | 16 of row 1] into 16 units (row 0, row 1).
CAUSEWAY_INLINE_AVX512 __m512i interleave_halves(__m512i halves) {
  alignas(64) static constexpr std::uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                          8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(order), halves);
}

CAUSEWAY_INLINE_AVX512_BF16 __m512 dot_units(__m512 sum, __m512i x, __m512i y) {
  __m512bh a;
  __m512bh b;
  __builtin_memcpy(&a, &x, sizeof a);
  __builtin_memcpy(&b, &y, sizeof b);
  return _mm512_dpbf16_ps(sum, a, b);
}

/// c[8][16*Vectors] (+)= A B, as avx512_tiles::product.
template <int Vectors, bool ByRows>
CAUSEWAY_TARGET_AVX512_BF16 void product_bf16(std::int64_t depth, const std::uint32_t* a, std::int64_t lda,
                                              const std::uint32_t* b, float* c, std::int64_t ldc, bool accumulate) {
  __m512 sums[panel_rows][Vectors];
  CAUSEWAY_UNROLL
  for (int i = 0; i < panel_rows; ++i) {
    CAUSEWAY_UNROLL
    for (int v = 0; v < Vectors; ++v) sums[i][v] = accumulate ? _mm512_loadu_ps(c + i * ldc + 16 * v) : _mm512_setzero_ps();
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    __m512i columns[Vectors];
    CAUSEWAY_UNROLL
    for (int v = 0; v < Vectors; ++v) columns[v] = _mm512_loadu_si512(b + p * tile_columns + 16 * v);
    CAUSEWAY_UNROLL
    for (int i = 0; i < panel_rows; ++i) {
      const __m512i x = _mm512_set1_epi32(static_cast<int>(ByRows ? a[i * lda + p] : a[p * lda + i]));
      CAUSEWAY_UNROLL
      for (int v = 0; v < Vectors; ++v) sums[i][v] = dot_units(sums[i][v], x, columns[v]);
    }
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < panel_rows; ++i) {
    CAUSEWAY_UNROLL
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(c + i * ldc + 16 * v, sums[i][v]);
  }
}

/// The bf16 steps.
struct avx512_bf16_tiles {
  using unit = std::uint32_t;
  static constexpr std::int64_t pair = 2;

  static void pack_rows(head_view<const bf16> x, unit* out, std::int64_t ld, std::int64_t rows) {
    pack_rows_avx512<bf16_units, 2>(x, out, ld, rows);
  }
  static void pack_transposed(head_view<const bf16> x, unit* out, std::int64_t depth, std::int64_t tokens) {
    pack_transposed_avx512<bf16_units, 2>(x, out, depth, tokens);
  }
  static CAUSEWAY_TARGET_AVX512 void pack_tokens(head_view<const bf16> x, unit* out, std::int64_t columns,
                                                 std::int64_t tokens) {
    for (std::int64_t j = 0; j < columns; j += 16) {
      unit* line = out + j / tile_columns * tile_columns * (tokens / 2) + j % tile_columns;
      for (std::int64_t i = 0; i < tokens; i += 2) {
        const __mmask16 even = lanes16(i < x.rows ? x.columns - j : 0);
        const __mmask16 odd = lanes16(i + 1 < x.rows ? x.columns - j : 0);
        const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(even, x.row(i) + j));
        const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(odd, x.row(i + 1) + j));
        _mm512_storeu_si512(line + i / 2 * tile_columns, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
      }
    }
  }
  static void product_by_rows(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                              std::int64_t ldc, std::int64_t width, bool accumulate) {
    const auto product = width > 16 ? product_bf16<2, true> : product_bf16<1, true>;
    product(depth, a, lda, b, c, ldc, accumulate);
  }
  static void product_by_columns(std::int64_t depth, const unit* a, std::int64_t lda, const unit* b, float* c,
                                 std::int64_t ldc, std::int64_t width, bool accumulate) {
    const auto product = width > 16 ? product_bf16<2, false> : product_bf16<1, false>;
    product(depth, a, lda, b, c, ldc, accumulate);
  }

  static CAUSEWAY_TARGET_AVX512_BF16 void softmax(float* s, std::int64_t ld, std::int64_t first, float scale, unit* p,
                                                  std::int64_t ldp, softmax_rows& rows) {
    const __m512 scale2 = _mm512_set1_ps(scale * log2_of_e);
    const std::int64_t vectors = first / 16 + 1;
    for (std::int64_t i = 0; i < panel_rows; ++i) {
      const float* line = s + i * ld;
      const __mmask16 last = lanes16(first % 16 + i + 1);
      const float top = row_maximum(line, vectors, last);
      const __m512 shift = _mm512_mul_ps(_mm512_set1_ps(-top), scale2);
      __m512 sum = _mm512_setzero_ps();
      for (std::int64_t v = 0; v < vectors; ++v) {
        const __m512 t = _mm512_fmadd_ps(_mm512_loadu_ps(line + v * 16), scale2, shift);
        const __m512 e = _mm512_maskz_mov_ps(v + 1 < vectors ? 0xFFFFU : last, power_of_two(t));
        sum = _mm512_add_ps(sum, e);
        const __m256bh rounded = _mm512_cvtneps_pbh(e);
        __builtin_memcpy(p + i * ldp + v * 8, &rounded, sizeof rounded);
      }
      const float total = _mm512_reduce_add_ps(sum);
      rows.inverse_sum[i] = 1.0F / total;
      rows.logsumexp[i] = top * scale + std::log(total);
    }
  }

  /// Two rows at a time, because they share units of p and ds (by columns). ds_rows holds ds by rows.
  static CAUSEWAY_TARGET_AVX512_BF16 void gradients(const float* s, const float* dp, std::int64_t ld, std::int64_t first,
                                                    std::int64_t columns, float scale, const gradient_rows& rows, unit* p,
                                                    unit* ds, std::int64_t ldp, unit* ds_rows, std::int64_t ld_rows) {
    for (std::int64_t i = 0; i < panel_rows; i += 2) {
      for (std::int64_t j = 0; j < columns; j += 16) {
        __m512 e[2];
        __m512 d[2];
        CAUSEWAY_UNROLL
        for (int r = 0; r < 2; ++r) {
          const __m512 scale2 = _mm512_set1_ps(scale * log2_of_e);
          const __m512 shift = _mm512_set1_ps(rows.logsumexp2[i + r]);
          const __m512 t = _mm512_fmsub_ps(_mm512_loadu_ps(s + (i + r) * ld + j), scale2, shift);
          e[r] = _mm512_maskz_mov_ps(lanes16(first + i + r + 1 - j), power_of_two(t));
          const __m512 correction = _mm512_set1_ps(rows.correction[i + r]);
          const __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(dp + (i + r) * ld + j), correction);
          d[r] = _mm512_mul_ps(_mm512_mul_ps(e[r], _mm512_set1_ps(scale)), difference);
        }
        _mm512_storeu_si512(p + i / 2 * ldp + j, interleave_halves(round_two(e[0], e[1])));
        const __m512i both = round_two(d[0], d[1]);
        _mm512_storeu_si512(ds + i / 2 * ldp + j, interleave_halves(both));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(ds_rows + i * ld_rows + j / 2), _mm512_castsi512_si256(both));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(ds_rows + (i + 1) * ld_rows + j / 2),
                            _mm512_extracti64x4_epi64(both, 1));
      }
    }
  }

  static void store_rows(const float* tile, std::int64_t ld, head_view<bf16> out, const float* factors) {
    store_rows_avx512(tile, ld, out, factors);
  }
  static void row_dots(head_view<const bf16> a, head_view<const bf16> b, float* dots) { row_dots_avx512(a, b, dots); }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_ATTENTION_TILES_BF16_HPP

// ---- causeway/kernels/attention.hpp ----
#ifndef CAUSEWAY_KERNELS_ATTENTION_HPP
#define CAUSEWAY_KERNELS_ATTENTION_HPP

// Causal attention with grouped queries. Scores and probabilities exist only in strips and blocks: memory is linear in T.
// The forward pass keeps the logarithm of each row's softmax denominator, from which the backward pass makes the
// probabilities again. Sums are in f32 for both storage types.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

/// Calls `f` with the steps for `level`, which this machine must support.
template <class Act, class F>
void with_tiles(simd_level level, F&& f) {
#if CAUSEWAY_X86_SIMD
  if constexpr (std::is_same_v<Act, bf16>) {
    if (level >= simd_level::avx512_bf16) return f(std::type_identity<avx512_bf16_tiles>{});
  }
  if (level >= simd_level::avx512) return f(std::type_identity<avx512_tiles<Act>>{});
  if (level >= simd_level::avx2) return f(std::type_identity<avx2_tiles<Act>>{});
#endif
  (void)level;
  f(std::type_identity<portable_tiles<Act>>{});
}

inline void expect_valid(const attention_shape& s) {
  CAUSEWAY_EXPECT(s.batch >= 0 && s.T >= 0 && s.head_size > 0 && s.scale > 0.0F);
  CAUSEWAY_EXPECT(s.kv_heads > 0 && s.heads % s.kv_heads == 0);
  (void)s;
}

}  // namespace detail

/// o = softmax(scale q kT, causal) v. Writes logsumexp [batch, heads, T] for the backward pass. Working memory is about
/// 2 T head_size values a thread. The result does not depend on the number of threads.
template <class Act>
  requires(std::same_as<Act, float> || std::same_as<Act, bf16>)
void attention_forward(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                       const Act* v, Act* o, float* logsumexp, simd_level level = detect_simd_level()) {
  detail::expect_valid(shape);
  detail::with_tiles<Act>(level, [&](auto tiles) {
    detail::attention_forward_with<typename decltype(tiles)::type>(pool, memory, shape, q, k, v, o, logsumexp);
  });
}

/// Gradients of attention_forward. `d_o` has o's layout; dq, dk, dv have q's, k's, v's and are overwritten. Working memory
/// is about 5 T head_size values a thread. The result is a function of the arguments and the number of threads.
template <class Act>
  requires(std::same_as<Act, float> || std::same_as<Act, bf16>)
void attention_backward(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                        const Act* v, const Act* o, const Act* d_o, const float* logsumexp, Act* dq, Act* dk, Act* dv,
                        simd_level level = detect_simd_level()) {
  detail::expect_valid(shape);
  const detail::backward_operands<Act> operands{q, k, v, o, d_o, logsumexp, dq, dk, dv};
  detail::with_tiles<Act>(level, [&](auto tiles) {
    detail::attention_backward_with<typename decltype(tiles)::type>(pool, memory, shape, operands);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ATTENTION_HPP

// ---- causeway/kernels/gemm.hpp ----
#ifndef CAUSEWAY_KERNELS_GEMM_HPP
#define CAUSEWAY_KERNELS_GEMM_HPP

// What a matrix product is asked to do, whoever does it. Row-major storage; sums are made in f32 whatever the operands are.
// Several products in a row share one scratch memory, so a product allocates nothing once the largest has been seen.

namespace causeway::inline CAUSEWAY_ABI::kernels {

enum class activation : std::uint8_t {
  none,
  gelu,  ///< the tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

/// C = act(op(A) op(B) + bias) + residual, with op(A) m x k and op(B) k x n. All memory is the caller's. C may be the
/// residual itself (in place) when there is no activation; it must overlap nothing else.
template <class In, class Out>
struct gemm_args {
  bool transpose_a = false;  ///< A is stored k x m
  bool transpose_b = false;  ///< B is stored n x k
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const In* a = nullptr;
  std::int64_t lda = 0;  ///< elements between the starts of two stored rows of A
  const In* b = nullptr;
  std::int64_t ldb = 0;
  Out* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;          ///< C += instead of C =; not together with `residual` or an activation
  const float* bias = nullptr;      ///< length n, added to every row
  const float* residual = nullptr;  ///< m x n, added last
  std::int64_t ld_residual = 0;
  activation act = activation::none;
  Out* pre_activation = nullptr;  ///< m x n with `ldc`: what `act` was applied to, for the backward pass
};

/// Something that multiplies matrices. The result is a function of the arguments and the number of threads alone.
template <class G>
concept Gemm = requires(G& g, const G& constant, thread_pool& pool, scratch& memory, const gemm_args<float, float>& f32,
                        const gemm_args<bf16, float>& mixed, const gemm_args<bf16, bf16>& half) {
  { g.multiply(pool, memory, f32) } -> std::same_as<void>;
  { g.multiply(pool, memory, mixed) } -> std::same_as<void>;
  { g.multiply(pool, memory, half) } -> std::same_as<void>;
  { constant.describe() } -> std::convertible_to<std::string>;
  { G::name } -> std::convertible_to<std::string_view>;
};

namespace detail {

/// The contract that every implementation starts from. Folds a residual that is C itself into `accumulate`.
template <class In, class Out>
gemm_args<In, Out> checked(gemm_args<In, Out> args) {
  CAUSEWAY_EXPECT(args.m >= 0 && args.n >= 0 && args.k >= 0);
  CAUSEWAY_EXPECT(args.m <= 1 || args.ldc >= args.n);
  CAUSEWAY_EXPECT(!args.accumulate || (args.residual == nullptr && args.act == activation::none));
  if constexpr (std::is_same_v<Out, float>) {
    if (args.residual != nullptr && args.residual == args.c) {
      CAUSEWAY_EXPECT(args.act == activation::none && args.ld_residual == args.ldc);
      args.residual = nullptr;
      args.accumulate = true;
    }
  }
  return args;
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_GEMM_HPP

// ---- causeway/kernels/cross_entropy.hpp ----
#ifndef CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP
#define CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP

// The output layer and its loss in one: logits are made for a chunk of rows at a time, turned into their own gradient and
// used at once, so that the [rows, V] matrix never exists.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

/// Memory for one chunk of logits. Every chunk reads the whole of w twice and reads and writes the whole of dw, so chunks
/// must be long: with GPT-2's vocabulary a step takes 5 % longer at half of this.
inline constexpr std::int64_t logits_bytes = std::int64_t{64} << 20U;

/// Rows of a chunk: as many as `logits_bytes` allows, but at least 64, and all chunks nearly equal.
constexpr std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t V) noexcept {
  const std::int64_t most = std::max<std::int64_t>(64, logits_bytes / (4 * V));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  const std::int64_t equal = (rows + chunks - 1) / chunks;
  return std::min(std::max<std::int64_t>(1, rows), (equal + 7) / 8 * 8);
}

struct row_maximum_kernel {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* x, std::int64_t count) {
    f32x16 top[2];
    broadcast(top[0], -std::numeric_limits<float>::infinity());
    top[1] = top[0];
    std::int64_t i = 0;
    for (; i + 2 * vector_lanes <= count; i += 2 * vector_lanes) {
      f32x16 a, b;
      load(a, x + i, whole{});
      load(b, x + i + vector_lanes, whole{});
      top[0] = a > top[0] ? a : top[0];
      top[1] = b > top[1] ? b : top[1];
    }
    top[0] = top[0] > top[1] ? top[0] : top[1];
    float best = top[0][0];
    for (int lane = 1; lane < vector_lanes; ++lane) best = top[0][lane] > best ? top[0][lane] : best;
    for (; i < count; ++i) best = x[i] > best ? x[i] : best;
    return best;
  }
};

/// x = e^(x - top); returns the sum. Sums of 512 in f32, those in f64.
struct row_exponential_kernel {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static double run(float* x, std::int64_t count, float top) {
    double sum = 0.0;
    for (std::int64_t begin = 0; begin < count; begin += 512) {
      const std::int64_t end = std::min(count, begin + 512);
      f32x16 part{};
      std::int64_t i = begin;
      for (; i + vector_lanes <= end; i += vector_lanes) {
        f32x16 v;
        load(v, x + i, whole{});
        v = v - top;
        exponential(v);
        store(x + i, v, whole{});
        part += v;
      }
      sum += static_cast<double>(horizontal_sum(part));
      if (i < end) sum += last(x + i, end - i, top);
    }
    return sum;
  }

 private:
  CAUSEWAY_ALWAYS_INLINE static double last(float* x, std::int64_t count, float top) {
    f32x16 v;
    load(v, x, tail{count});
    v = v - top;
    exponential(v);
    store(x, v, tail{count});
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
    return sum;
  }
};

/// y = factor * x; y may be x.
template <class Act>
struct row_scale_kernel {
  static constexpr bool exact = false;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, Act* y, std::int64_t count, float factor) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, x + i, part);
      v = v * factor;
      store(y + i, v, part);
    });
  }
};

/// -log softmax(logits)[target]. Destroys the logits; `gradient`, when not null, receives scale * (softmax - onehot) and
/// may be the logits themselves.
template <class Act>
double cross_entropy_row(float* logits, Act* gradient, std::int64_t V, std::int32_t target, float scale, simd_level level) {
  if (target < 0) {
    if (gradient != nullptr) std::fill(gradient, gradient + V, Act(0.0F));
    return 0.0;
  }
  CAUSEWAY_EXPECT(target < V);
  const auto chosen = static_cast<double>(logits[target]);
  const float top = dispatch<row_maximum_kernel>(level, static_cast<const float*>(logits), V);
  const double sum = dispatch<row_exponential_kernel>(level, logits, V, top);
  if (gradient != nullptr) {
    const double factor = static_cast<double>(scale) / sum;
    const double at_target = static_cast<double>(logits[target]) * factor - static_cast<double>(scale);
    dispatch<row_scale_kernel<Act>>(level, static_cast<const float*>(logits), gradient, V, static_cast<float>(factor));
    gradient[target] = Act(static_cast<float>(at_target));
  }
  return std::log(sum) + static_cast<double>(top) - chosen;
}

/// One chunk's operands: `rows` rows of x, and the tiles for their logits and gradients.
template <class Act>
struct cross_entropy_chunk {
  const Act* x;
  const Act* w;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t C;
  std::int64_t V;
  float* logits;
  Act* gradient;  ///< null: only the loss
  double* losses;
};

/// The loss of a chunk; leaves the gradient with respect to the logits in `gradient`.
template <class Act, class G>
double chunk_loss(thread_pool& pool, scratch& memory, G& gemm, const cross_entropy_chunk<Act>& c, float scale,
                  simd_level level) {
  gemm_args<Act, float> product;
  product.transpose_b = true;
  product.m = c.rows, product.n = c.V, product.k = c.C;
  product.a = c.x, product.lda = c.C;
  product.b = c.w, product.ldb = c.C;
  product.c = c.logits, product.ldc = c.V;
  gemm.multiply(pool, memory, product);
  for_rows(pool, c.rows, c.V, [&](index_range part) {
    for (std::int64_t r = part.begin; r < part.end; ++r) {
      Act* gradient = c.gradient == nullptr ? nullptr : c.gradient + r * c.V;
      c.losses[r] = cross_entropy_row(c.logits + r * c.V, gradient, c.V, c.targets[r], scale, level);
    }
  });
  double sum = 0.0;
  for (std::int64_t r = 0; r < c.rows; ++r) sum += c.losses[r];
  return sum;
}

/// dx = gradient w (overwritten) and dw += gradientT x; either may be null.
template <class Act, class G>
void chunk_gradients(thread_pool& pool, scratch& memory, G& gemm, const cross_entropy_chunk<Act>& c, Act* dx, float* dw) {
  if (dx != nullptr) {
    gemm_args<Act, Act> product;
    product.m = c.rows, product.n = c.C, product.k = c.V;
    product.a = c.gradient, product.lda = c.V;
    product.b = c.w, product.ldb = c.C;
    product.c = dx, product.ldc = c.C;
    gemm.multiply(pool, memory, product);
  }
  if (dw != nullptr) {
    gemm_args<Act, float> product;
    product.transpose_a = true, product.accumulate = true;
    product.m = c.V, product.n = c.C, product.k = c.rows;
    product.a = c.gradient, product.lda = c.V;
    product.b = c.x, product.ldb = c.C;
    product.c = dw, product.ldc = c.C;
    gemm.multiply(pool, memory, product);
  }
}

}  // namespace detail

/// Sum over rows of -log softmax(x wT)[target]; rows with a negative target are ignored. x is [rows, C], w is [V, C].
/// dx (overwritten) and dw (added to) receive the gradient of `grad_scale` times that sum; without both only the loss is
/// computed. Row losses are added in f64, in the order of the rows. Working memory: 64 MiB of logits (at least 64 rows,
/// at most all), half as much again for their gradient when Act is bf16.
template <class Act, Gemm G>
double cross_entropy(thread_pool& pool, scratch& memory, G& gemm, const Act* x, const Act* w, const std::int32_t* targets,
                     std::int64_t rows, std::int64_t C, std::int64_t V, float grad_scale, Act* dx, float* dw,
                     simd_level level = detect_simd_level()) {
  const std::int64_t size = detail::rows_per_chunk(rows, V);
  auto frame = memory.open();
  float* logits = frame.template take<float>(static_cast<std::size_t>(size * V));
  double* losses = frame.template take<double>(static_cast<std::size_t>(size));
  Act* gradient = nullptr;
  if (dx != nullptr || dw != nullptr) {
    if constexpr (std::is_same_v<Act, float>) {
      gradient = logits;
    } else {
      gradient = frame.template take<Act>(static_cast<std::size_t>(size * V));
    }
  }
  double loss = 0.0;
  for (std::int64_t begin = 0; begin < rows; begin += size) {
    const detail::cross_entropy_chunk<Act> chunk{
        x + begin * C, w, targets + begin, std::min(size, rows - begin), C, V, logits, gradient, losses};
    loss += detail::chunk_loss(pool, memory, gemm, chunk, grad_scale, level);
    detail::chunk_gradients(pool, memory, gemm, chunk, dx == nullptr ? nullptr : dx + begin * C, dw);
  }
  return loss;
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_CROSS_ENTROPY_HPP

// ---- causeway/kernels/openmp_guard.hpp ----
#ifndef CAUSEWAY_KERNELS_OPENMP_GUARD_HPP
#define CAUSEWAY_KERNELS_OPENMP_GUARD_HPP

// Keeps the OpenMP threads of a library that we call asleep: OpenMP asks each calling thread how many threads it may use,
// so each thread of ours says one. Does nothing where no OpenMP is loaded.

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// The function of that name in what this program has loaded, or null. `F` is a function pointer type.
template <class F>
F loaded_function(const char* name) noexcept {
#if defined(__unix__) || defined(__APPLE__)
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
#else
  static_cast<void>(name);
  return nullptr;
#endif
}

/// Makes OpenMP use one thread for what this thread calls, until the end of the scope. Looked up at run time: a program
/// that links oneDNN need not link OpenMP itself.
class one_openmp_thread {
 public:
  one_openmp_thread() noexcept : before_{functions().get != nullptr ? functions().get() : 1} { set(1); }
  one_openmp_thread(const one_openmp_thread&) = delete;
  one_openmp_thread& operator=(const one_openmp_thread&) = delete;
  ~one_openmp_thread() { set(before_); }

 private:
  struct api {
    int (*get)();
    void (*set)(int);
  };
  static const api& functions() noexcept {
    static const api found{loaded_function<int (*)()>("omp_get_max_threads"),
                           loaded_function<void (*)(int)>("omp_set_num_threads")};
    return found;
  }
  static void set(int threads) noexcept {
    if (functions().set != nullptr) functions().set(threads);
  }

  int before_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_OPENMP_GUARD_HPP

// ---- causeway/kernels/packed_gemm_blocking.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_BLOCKING_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_BLOCKING_HPP

// How the packed product cuts its work: between threads, into blocks that fit the caches, into panels of packed operands.
// Nothing here depends on the machine's load, and the cut along k depends on k alone, so that every element of C is the
// same sum in the same order whatever the number of threads.

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) noexcept { return divide_up(a, b) * b; }

/// The sizes of the blocks that stay in a cache: B's is depth x columns, A's is rows x depth.
struct block_sizes {
  std::int64_t depth;
  std::int64_t rows;
  std::int64_t columns;
};

/// `limit` or less, so that `count` falls into equal parts that are multiples of `unit`.
constexpr std::int64_t even_block(std::int64_t count, std::int64_t limit, std::int64_t unit) noexcept {
  const std::int64_t blocks = std::max<std::int64_t>(1, divide_up(count, limit));
  return std::max(unit, round_up(divide_up(count, blocks), unit));
}

/// Threads as a grid over C: `rows` parts of its rows times `columns` parts of its columns.
struct thread_grid {
  unsigned rows = 1;
  unsigned columns = 1;
  [[nodiscard]] constexpr unsigned size() const noexcept { return rows * columns; }
};

/// The grid with the smallest largest part, counting what each part costs to compute and to pack.
constexpr thread_grid choose_grid(std::int64_t m, std::int64_t n, std::int64_t strip, unsigned threads) noexcept {
  constexpr std::int64_t packing = 8;  // packing one operand element costs about as much as 8 multiply-adds
  thread_grid best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (unsigned rows = 1; rows <= threads; ++rows) {
    const unsigned columns = threads / rows;
    const std::int64_t height = divide_up(m, rows);
    const std::int64_t width = divide_up(divide_up(n, strip), columns) * strip;
    const std::int64_t cost = height * width + packing * (height + width);
    if (cost < least) {
      least = cost;
      best = {rows, columns};
    }
  }
  return best;
}

/// One operand as the packing sees it: lanes (rows of A, columns of B) by depth (k). One of the strides is 1.
template <class In>
struct operand {
  const In* data;
  std::int64_t lane_stride;
  std::int64_t depth_stride;

  [[nodiscard]] operand at(std::int64_t lane, std::int64_t depth) const noexcept {
    return {data + lane * lane_stride + depth * depth_stride, lane_stride, depth_stride};
  }
};

template <class In, class Out>
operand<In> left_operand(const gemm_args<In, Out>& args) noexcept {
  return args.transpose_a ? operand<In>{args.a, 1, args.lda} : operand<In>{args.a, args.lda, 1};
}

template <class In, class Out>
operand<In> right_operand(const gemm_args<In, Out>& args) noexcept {
  return args.transpose_b ? operand<In>{args.b, args.ldb, 1} : operand<In>{args.b, 1, args.ldb};
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_BLOCKING_HPP

// ---- causeway/kernels/packed_gemm_avx2.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP

// Packing and tile product with AVX2 and FMA. A tile is 6 x 16 sums: 12 of the 16 registers, two for B, one for
// A. bf16 operands are widened to f32 while they are packed. Lanes beyond an operand's edge repeat its last lane or are
// zero: they feed only sums that nobody reads.

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// Eight values, of which the first `count` exist and the others are zero.
struct avx2_values {
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256i first(std::int64_t count) noexcept {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256 load(const float* from, std::int64_t count) noexcept {
    if (count >= 8) return _mm256_loadu_ps(from);
    return _mm256_maskload_ps(from, first(count));
  }
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE __m256 load(const bf16* from, std::int64_t count) noexcept {
    bf16 copy[8] = {};
    if (count < 8) {
      for (std::int64_t i = 0; i < count; ++i) copy[i] = from[i];
      from = copy;
    }
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
};

/// r[i][j] becomes r[j][i], for 8 x 8 values.
CAUSEWAY_TARGET_AVX2 CAUSEWAY_ALWAYS_INLINE void transpose_8x8(__m256* r) noexcept {
  __m256 t[8];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; i += 2) {  // pairs of values
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; i += 4) {  // groups of four within each 128-bit lane
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

struct avx2_tile {
  using packed = float;
  static constexpr int rows = 6;
  static constexpr int columns = 16;
  static constexpr simd_level level = simd_level::avx2;
  static constexpr int depth_step = 1;
  static constexpr block_sizes blocks{256, 144, 1536};

  template <class In>
  CAUSEWAY_TARGET_AVX2 static void pack(operand<In> source, int lanes, std::int64_t depth, int width, packed* out) {
    if (source.lane_stride == 1) return pack_along_lanes(source, lanes, depth, width, out);
    for (std::int64_t p = 0; p < depth; p += 8, out += 8 * width) {
      for (int lane = 0; lane < width; lane += 8) transpose_block(source, lanes, lane, p, depth - p, width, out + lane);
    }
  }

  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
      using function = void (*)(std::int64_t, const packed*, const packed*, float*, std::int64_t, bool);
      return std::array<function, rows>{&multiply_rows<I + 1>...};
    }
    (std::make_integer_sequence<int, rows>{});
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
  }

 private:
  template <class In>
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void pack_along_lanes(operand<In> source, int lanes,
                                                                           std::int64_t depth, int width, packed* out) {
    for (std::int64_t p = 0; p < depth; ++p, out += width) {
      const In* from = source.data + p * source.depth_stride;
      for (int lane = 0; lane < width; lane += 8) {
        const int left = std::max(lanes - lane, 0);
        _mm256_storeu_ps(out + lane, avx2_values::load(from + std::min(lane, lanes), left));
      }
    }
  }

  template <class In>
  CAUSEWAY_TARGET_AVX2 static CAUSEWAY_ALWAYS_INLINE void transpose_block(operand<In> source, int lanes, int lane,
                                                                          std::int64_t p, std::int64_t depth, int width,
                                                                          packed* out) {
    __m256 r[8];
    const int last = lanes - 1;
    CAUSEWAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      r[i] = avx2_values::load(source.data + std::min(lane + i, last) * source.lane_stride + p, depth);
    }
    transpose_8x8(r);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 8; ++i) {
      if (i < depth) _mm256_storeu_ps(out + i * width, r[i]);
    }
  }

  template <int Height>
  CAUSEWAY_TARGET_AVX2 static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c,
                                                 std::int64_t ldc, bool add) {
    __m256 sum[Height][2];
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = _mm256_setzero_ps();
      sum[i][1] = _mm256_setzero_ps();
      _mm_prefetch(c + i * ldc, _MM_HINT_T0);
    }
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      const __m256 left = _mm256_loadu_ps(b);
      const __m256 right = _mm256_loadu_ps(b + 8);
      _mm_prefetch(b + 16 * columns, _MM_HINT_T0);
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        const __m256 x = _mm256_broadcast_ss(a + i);
        sum[i][0] = _mm256_fmadd_ps(x, left, sum[i][0]);
        sum[i][1] = _mm256_fmadd_ps(x, right, sum[i][1]);
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      float* to = c + i * ldc;
      if (add) {
        sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(to));
        sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(to + 8));
      }
      _mm256_storeu_ps(to, sum[i][0]);
      _mm256_storeu_ps(to + 8, sum[i][1]);
    }
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX2_HPP

// ---- causeway/kernels/packed_gemm_avx512.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_HPP

// Packing and tile product with AVX-512. A tile is 14 x 32 sums: 28 of the 32 registers, two for B, one for A. A packed
// element is 32 bits. bf16 operands are widened to f32 while they are packed, for processors without bf16 products. Lanes
// beyond an operand's edge repeat its last lane: they feed only sums that nobody reads.

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees one inside its own intrinsics (its bug 105593)
#endif

/// The lowest `count` bits of 16.
constexpr std::uint16_t low_bits(std::int64_t count) noexcept {
  return count >= 16 ? std::uint16_t{0xFFFF} : static_cast<std::uint16_t>((1U << count) - 1U);
}

/// Reads 16 packed elements, f32 from `In`. One element holds one value of k.
template <class In>
struct avx512_values {
  static constexpr int depth_step = 1;

  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i load(const float* from, std::uint16_t mask) noexcept {
    return _mm512_maskz_loadu_epi32(mask, from);
  }
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i load(const bf16* from, std::uint16_t mask) noexcept {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16);
  }
  /// 16 successive elements along k, of which `depth` values exist.
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_depth(const In* from, std::int64_t depth) noexcept {
    return load(from, low_bits(depth));
  }
  /// One element of each of 16 lanes.
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_lanes(const In* from, std::int64_t /*stride*/,
                                                                           std::int64_t /*depth*/,
                                                                           std::uint16_t mask) noexcept {
    return load(from, mask);
  }
};

/// r[i][j] becomes r[j][i], for 16 x 16 elements of 32 bits.
CAUSEWAY_TARGET_AVX512 CAUSEWAY_ALWAYS_INLINE void transpose_16x16(__m512i* r) noexcept {
  __m512i t[16];
  CAUSEWAY_UNROLL
  for (int i = 0; i < 16; i += 2) {  // pairs of elements
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 16; i += 4) {  // groups of four within each 128-bit lane
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {  // 128-bit lanes of rows 0..7 and 8..15
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
  CAUSEWAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

/// Packs any operand; `Reader` says what an element is. Each element row is written as whole vectors, so up to 15 elements
/// beyond a panel are overwritten: by the rows that follow, or into the slack at the block's end.
template <class Reader, class In, class Packed>
struct avx512_packing {
  CAUSEWAY_TARGET_AVX512 static void along_lanes(operand<In> source, int lanes, std::int64_t depth, int width,
                                                 Packed* out) {
    for (std::int64_t p = 0; p < depth; p += Reader::depth_step, out += width) {
      const In* from = source.data + p * source.depth_stride;
      for (int lane = 0; lane < width; lane += 16) {
        const auto mask = lane < lanes ? low_bits(lanes - lane) : std::uint16_t{0};
        _mm512_storeu_si512(out + lane, Reader::along_lanes(from + lane, source.depth_stride, depth - p, mask));
      }
    }
  }

  CAUSEWAY_TARGET_AVX512 static void along_depth(operand<In> source, int lanes, std::int64_t depth, int width,
                                                 Packed* out) {
    constexpr std::int64_t block = 16 * Reader::depth_step;
    for (std::int64_t p = 0; p < depth; p += block, out += 16 * width) {
      for (int lane = 0; lane < width; lane += 16) transpose_block(source, lanes, lane, p, depth - p, width, out + lane);
    }
  }

 private:
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE void transpose_block(operand<In> source, int lanes, int lane,
                                                                            std::int64_t p, std::int64_t depth, int width,
                                                                            Packed* out) {
    __m512i r[16];
    const int last = lanes - 1;
    CAUSEWAY_UNROLL
    for (int i = 0; i < 16; ++i) {
      const In* from = source.data + std::min(lane + i, last) * source.lane_stride + p;
      r[i] = Reader::along_depth(from, depth);
      _mm_prefetch(from + 8 * 16 * Reader::depth_step, _MM_HINT_T1);  // rows are more streams than hardware follows
    }
    transpose_16x16(r);
    const std::int64_t steps = divide_up(depth, Reader::depth_step);
    CAUSEWAY_UNROLL
    for (int i = 0; i < 16; ++i) {
      if (i < steps) _mm512_storeu_si512(out + i * width, r[i]);
    }
  }
};

/// What the f32 and the bf16 tile have in common.
struct avx512_tile_base {
  static constexpr int rows = 14;
  static constexpr int columns = 32;
  static constexpr simd_level level = simd_level::avx512;

 protected:
  template <int Height>
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE void store(__m512 (&sum)[Height][2], float* c, std::int64_t ldc,
                                                                  bool add) noexcept {
    if (add) {
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_loadu_ps(c + i * ldc));
        sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_loadu_ps(c + i * ldc + 16));
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      _mm512_storeu_ps(c + i * ldc, sum[i][0]);
      _mm512_storeu_ps(c + i * ldc + 16, sum[i][1]);
    }
  }
};

/// f32 multiply-adds; bf16 operands are widened while they are packed.
struct avx512_tile : avx512_tile_base {
  using packed = float;
  static constexpr int depth_step = 1;
  static constexpr block_sizes blocks{384, 224, 1536};

  template <class In>
  static void pack(operand<In> source, int lanes, std::int64_t depth, int width, packed* out) {
    using packing = avx512_packing<avx512_values<In>, In, packed>;
    if (source.lane_stride == 1) return packing::along_lanes(source, lanes, depth, width, out);
    packing::along_depth(source, lanes, depth, width, out);
  }

  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
      using function = void (*)(std::int64_t, const packed*, const packed*, float*, std::int64_t, bool);
      return std::array<function, rows>{&multiply_rows<I + 1>...};
    }
    (std::make_integer_sequence<int, rows>{});
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
  }

 private:
  template <int Height>
  CAUSEWAY_TARGET_AVX512 static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c,
                                                   std::int64_t ldc, bool add) {
    __m512 sum[Height][2];
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = _mm512_setzero_ps();
      sum[i][1] = _mm512_setzero_ps();
      _mm_prefetch(c + i * ldc, _MM_HINT_T0);
      _mm_prefetch(c + i * ldc + 16, _MM_HINT_T0);
    }
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      const __m512 left = _mm512_loadu_ps(b);
      const __m512 right = _mm512_loadu_ps(b + 16);
      _mm_prefetch(b + 8 * columns, _MM_HINT_T0);
      _mm_prefetch(b + 8 * columns + 16, _MM_HINT_T0);
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        const __m512 x = _mm512_set1_ps(a[i]);
        sum[i][0] = _mm512_fmadd_ps(x, left, sum[i][0]);
        sum[i][1] = _mm512_fmadd_ps(x, right, sum[i][1]);
      }
    }
    store(sum, c, ldc, add);
  }
};

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_HPP

// ---- causeway/kernels/packed_gemm_finish.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_FINISH_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_FINISH_HPP

// What a product does to its sums before they are C: earlier sums, bias, activation, residual, rounding. Done to a tile
// while it is in the first cache, or to whole rows after a library's product. The activation has the bits of gelu_forward.

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// Where finished sums go. All pointers are at the corner of the part of C that is finished.
template <class Out>
struct finish_args {
  const float* partial;  ///< sums of earlier blocks of k, or null
  std::int64_t ld_partial;
  const float* bias;
  const float* residual;
  std::int64_t ld_residual;
  activation act;
  bool accumulate;
  Out* pre_activation;
  Out* c;
  std::int64_t ldc;
};

/// The finish that `args` asks for, at row `i` and column `j`, without earlier sums.
template <class In, class Out>
finish_args<Out> finish_at(const gemm_args<In, Out>& args, std::int64_t i, std::int64_t j) noexcept {
  const std::int64_t offset = i * args.ldc + j;
  return {.partial = nullptr,
          .ld_partial = 0,
          .bias = args.bias == nullptr ? nullptr : args.bias + j,
          .residual = args.residual == nullptr ? nullptr : args.residual + i * args.ld_residual + j,
          .ld_residual = args.ld_residual,
          .act = args.act,
          .accumulate = args.accumulate,
          .pre_activation = args.pre_activation == nullptr ? nullptr : args.pre_activation + offset,
          .c = args.c + offset,
          .ldc = args.ldc};
}

/// Turns `height` x `width` sums, rows `ld` apart, into C.
struct finish_kernel {
  static constexpr bool exact = false;

  template <class Out>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* sums, std::int64_t ld, std::int64_t height, std::int64_t width,
                                         const finish_args<Out>* to) {
    for (std::int64_t i = 0; i < height; ++i) {
      for_lanes(width,
                [&](std::int64_t j, auto part) CAUSEWAY_INLINE_LAMBDA { finish(sums + i * ld + j, i, j, part, *to); });
    }
  }

 private:
  template <class Out, class Part>
  CAUSEWAY_ALWAYS_INLINE static void finish(const float* sums, std::int64_t i, std::int64_t j, Part part,
                                            const finish_args<Out>& to) {
    f32x16 value;
    load(value, sums, part);
    if (to.partial != nullptr) add(value, to.partial + i * to.ld_partial + j, part);
    if (to.accumulate) add(value, to.c + i * to.ldc + j, part);
    if (to.bias != nullptr) add(value, to.bias + j, part);
    if (to.pre_activation != nullptr) store(to.pre_activation + i * to.ldc + j, value, part);
    if (to.act == activation::gelu) {
      f32x16 gate;
      gelu_gate(gate, value);
      value = value * gate;
    }
    if (to.residual != nullptr) add(value, to.residual + i * to.ld_residual + j, part);
    store(to.c + i * to.ldc + j, value, part);
  }

  template <class T, class Part>
  CAUSEWAY_ALWAYS_INLINE static void add(f32x16& value, const T* from, Part part) {
    f32x16 other;
    load(other, from, part);
    value = value + other;
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_FINISH_HPP

// ---- causeway/kernels/packed_gemm_avx512_bf16.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_BF16_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_BF16_HPP

// Packing and tile product with AVX-512's bf16 dot products, at twice the rate of f32. A packed element is 32 bits: two
// bf16 that follow each other along k, which is what vdpbf16ps multiplies with another such pair and adds to an f32 sum.

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees one inside its own intrinsics (its bug 105593)
#endif

/// Reads 16 packed elements, pairs of bf16. One element holds two values of k; beyond the end of k it is zero.
struct avx512_pairs {
  static constexpr int depth_step = 2;

  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_depth(const bf16* from, std::int64_t depth) noexcept {
    const std::uint32_t mask = depth >= 32 ? 0xFFFFFFFFU : (1U << depth) - 1U;
    return _mm512_maskz_loadu_epi16(mask, from);
  }
  CAUSEWAY_TARGET_AVX512 static CAUSEWAY_ALWAYS_INLINE __m512i along_lanes(const bf16* from, std::int64_t stride,
                                                                           std::int64_t depth,
                                                                           std::uint16_t mask) noexcept {
    const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    if (depth < 2) return even;
    const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + stride));
    return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
  }
};

/// bf16 dot products of pairs, summed in f32.
struct avx512_bf16_tile : avx512_tile_base {
  using packed = std::uint32_t;
  static constexpr int depth_step = 2;
  static constexpr block_sizes blocks{768, 224, 1536};

  static void pack(operand<bf16> source, int lanes, std::int64_t depth, int width, packed* out) {
    using packing = avx512_packing<avx512_pairs, bf16, packed>;
    if (source.lane_stride == 1) return packing::along_lanes(source, lanes, depth, width, out);
    packing::along_depth(source, lanes, depth, width, out);
  }

  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
      using function = void (*)(std::int64_t, const packed*, const packed*, float*, std::int64_t, bool);
      return std::array<function, rows>{&multiply_rows<I + 1>...};
    }
    (std::make_integer_sequence<int, rows>{});
    table[static_cast<std::size_t>(height - 1)](steps, a, b, c, ldc, add);
  }

  /// The frequent finish of a whole strip without a detour: a b, earlier sums and bias, if any, rounded to bf16.
  static void multiply_and_round(int height, std::int64_t steps, const packed* a, const packed* b,
                                 const finish_args<bf16>& to) {
    static constexpr auto table = []<int... I>(std::integer_sequence<int, I...>) {
      using function = void (*)(std::int64_t, const packed*, const packed*, const finish_args<bf16>&);
      return std::array<function, rows>{&round_rows<I + 1>...};
    }
    (std::make_integer_sequence<int, rows>{});
    table[static_cast<std::size_t>(height - 1)](steps, a, b, to);
  }

 private:
  template <int Height>
  CAUSEWAY_TARGET_AVX512_BF16 static CAUSEWAY_ALWAYS_INLINE void sum_up(__m512 (&sum)[Height][2], std::int64_t steps,
                                                                        const packed* a, const packed* b) noexcept {
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      const auto left = (__m512bh)_mm512_loadu_si512(b);
      const auto right = (__m512bh)_mm512_loadu_si512(b + 16);
      _mm_prefetch(b + 8 * columns, _MM_HINT_T0);
      _mm_prefetch(b + 8 * columns + 16, _MM_HINT_T0);
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[i]));
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, left);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, right);
      }
    }
  }

  template <int Height>
  CAUSEWAY_TARGET_AVX512_BF16 static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c,
                                                        std::int64_t ldc, bool add) {
    __m512 sum[Height][2];
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = _mm512_setzero_ps();
      sum[i][1] = _mm512_setzero_ps();
      _mm_prefetch(c + i * ldc, _MM_HINT_T0);
      _mm_prefetch(c + i * ldc + 16, _MM_HINT_T0);
    }
    sum_up(sum, steps, a, b);
    store(sum, c, ldc, add);
  }

  template <int Height>
  CAUSEWAY_TARGET_AVX512_BF16 static void round_rows(std::int64_t steps, const packed* a, const packed* b,
                                                     const finish_args<bf16>& to) {
    __m512 sum[Height][2];
    const __m512 left = to.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(to.bias);
    const __m512 right = to.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(to.bias + 16);
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      sum[i][0] = left;
      sum[i][1] = right;
      _mm_prefetch(to.c + i * to.ldc, _MM_HINT_T0);
    }
    sum_up(sum, steps, a, b);
    if (to.partial != nullptr) {
      CAUSEWAY_UNROLL
      for (int i = 0; i < Height; ++i) {
        sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_loadu_ps(to.partial + i * to.ld_partial));
        sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_loadu_ps(to.partial + i * to.ld_partial + 16));
      }
    }
    CAUSEWAY_UNROLL
    for (int i = 0; i < Height; ++i) {
      _mm512_storeu_si512(to.c + i * to.ldc, (__m512i)_mm512_cvtne2ps_pbh(sum[i][1], sum[i][0]));
    }
  }
};

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_X86_SIMD

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_AVX512_BF16_HPP

// ---- causeway/kernels/packed_gemm_portable.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_PORTABLE_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_PORTABLE_HPP

// Packing and tile product without any particular instruction set: what a machine runs that has neither AVX2 nor
// AVX-512, and what the others are tested against.

namespace causeway::inline CAUSEWAY_ABI::kernels::detail {

/// A tile of 4 x 8 sums, made of vectors that every 64-bit processor has.
struct portable_tile {
  using packed = float;
  static constexpr int rows = 4;
  static constexpr int columns = 8;
  static constexpr simd_level level = simd_level::portable;
  static constexpr int depth_step = 1;  ///< values of k in one packed element
  static constexpr block_sizes blocks{256, 128, 1024};

  /// Writes out[step * width + lane] for `lanes` lanes; lanes from there to `width` are zero.
  template <class In>
  static void pack(operand<In> source, int lanes, std::int64_t depth, int width, packed* out) {
    for (std::int64_t p = 0; p < depth; ++p, out += width) {
      const In* from = source.data + p * source.depth_stride;
      for (int lane = 0; lane < lanes; ++lane) out[lane] = static_cast<float>(from[lane * source.lane_stride]);
      for (int lane = lanes; lane < width; ++lane) out[lane] = 0.0F;
    }
  }

  /// c = a b, or c += a b, for a panel of `height` rows and one strip.
  static void multiply(int height, std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc,
                       bool add) {
    switch (height) {
      case 1: return multiply_rows<1>(steps, a, b, c, ldc, add);
      case 2: return multiply_rows<2>(steps, a, b, c, ldc, add);
      case 3: return multiply_rows<3>(steps, a, b, c, ldc, add);
      default: return multiply_rows<4>(steps, a, b, c, ldc, add);
    }
  }

 private:
  template <int Height>
  static void multiply_rows(std::int64_t steps, const packed* a, const packed* b, float* c, std::int64_t ldc, bool add) {
    float sum[Height][columns] = {};
    for (std::int64_t p = 0; p < steps; ++p, a += Height, b += columns) {
      for (int i = 0; i < Height; ++i) {
        for (int j = 0; j < columns; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    for (int i = 0; i < Height; ++i) {
      for (int j = 0; j < columns; ++j) c[i * ldc + j] = add ? c[i * ldc + j] + sum[i][j] : sum[i][j];
    }
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_PORTABLE_HPP

// ---- causeway/kernels/packed_gemm.hpp ----
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_HPP

// Our own matrix product. It needs no library and no compiler flags: the instruction set is chosen at run time. Operands
// are copied into panels that the tile kernels read in order (the way of Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008). Every element of C is one sum in one order, whatever the number of
// threads.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

/// One product with the kernels of `Tile`, cut into shares.
template <class Tile, class In, class Out>
class packed_product {
 public:
  packed_product(const gemm_args<In, Out>& args, unsigned threads)
      : args_{args}, grid_{choose_grid(args.m, args.n, Tile::columns, threads)} {
    depth_ = even_block(args.k, Tile::blocks.depth, 16);
    rows_ = even_block(divide_up(args.m, grid_.rows), Tile::blocks.rows, 1);
    columns_ = even_block(divide_up(args.n, grid_.columns), Tile::blocks.columns, Tile::columns);
    only_rounds_ =
        !args.accumulate && args.residual == nullptr && args.act == activation::none && args.pre_activation == nullptr;
    plain_ = std::is_same_v<Out, float> && args.bias == nullptr && args.residual == nullptr &&
             args.act == activation::none && args.pre_activation == nullptr;
  }

  void run(thread_pool& pool, scratch& memory) {
    auto frame = memory.open();
    memory_ = frame.template take<std::byte>(share_bytes() * grid_.size());
    if (grid_.size() == 1) {
      share(0);
    } else {
      pool.run([this](unsigned index) {
        if (index < grid_.size()) share(index);
      });
    }
  }

 private:
  using packed = typename Tile::packed;

  [[nodiscard]] std::int64_t steps(std::int64_t depth) const noexcept { return divide_up(depth, Tile::depth_step); }
  [[nodiscard]] static constexpr unsigned panels(std::int64_t rows) noexcept {
    return static_cast<unsigned>(divide_up(rows, Tile::rows));
  }
  [[nodiscard]] static constexpr unsigned strips(std::int64_t columns) noexcept {
    return static_cast<unsigned>(divide_up(columns, Tile::columns));
  }
  /// Panels are nearly equally high, so that none is too low to keep the multipliers busy.
  [[nodiscard]] static constexpr index_range panel(std::int64_t rows, unsigned i) noexcept {
    return share_of(rows, i, panels(rows));
  }
  [[nodiscard]] static constexpr index_range strip(std::int64_t columns, unsigned i) noexcept {
    return {i * Tile::columns, std::min<std::int64_t>((i + 1) * Tile::columns, columns)};
  }
  /// Elements between two panels of A. Packing may write up to a vector beyond a panel.
  [[nodiscard]] std::int64_t panel_size() const noexcept { return round_up(Tile::rows * steps(depth_), 16) + 16; }
  [[nodiscard]] std::int64_t strip_size() const noexcept { return Tile::columns * steps(depth_); }
  [[nodiscard]] std::size_t a_bytes() const noexcept {
    return round_to_line(static_cast<std::size_t>(panels(rows_) * panel_size()) * sizeof(packed));
  }
  [[nodiscard]] std::size_t b_bytes() const noexcept {
    return round_to_line(static_cast<std::size_t>(strips(columns_) * strip_size()) * sizeof(packed));
  }
  [[nodiscard]] static constexpr std::size_t tile_bytes() noexcept {
    return round_to_line(sizeof(float) * Tile::rows * Tile::columns);
  }
  /// Sums of several blocks of k are kept in f32: in C where it can hold them, else here.
  [[nodiscard]] std::size_t partial_bytes() const noexcept {
    if (std::is_same_v<Out, float> || args_.k <= depth_) return 0;
    const std::int64_t height = divide_up(args_.m, grid_.rows);
    return round_to_line(static_cast<std::size_t>(height * columns_) * sizeof(float));
  }
  [[nodiscard]] std::size_t share_bytes() const noexcept { return a_bytes() + b_bytes() + tile_bytes() + partial_bytes(); }
  [[nodiscard]] static constexpr std::size_t round_to_line(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

  /// Where a thread works: its part of C and its memory.
  struct place {
    index_range rows;
    packed* a;
    packed* b;
    float* tile;
    float* partial;
    std::int64_t ld_partial;
    std::int64_t column;  ///< of the current block of columns
    std::int64_t width;
    std::int64_t depth;  ///< of the current block of k
    bool first;          ///< block of k
    bool last;
  };

  void share(unsigned index) {
    const index_range columns = share_of(args_.n, index % grid_.columns, grid_.columns, Tile::columns);
    place at{};
    at.rows = share_of(args_.m, index / grid_.columns, grid_.rows);
    if (at.rows.size() <= 0) return;
    std::byte* memory = memory_ + share_bytes() * index;
    at.a = reinterpret_cast<packed*>(memory);
    at.b = reinterpret_cast<packed*>(memory + a_bytes());
    at.tile = reinterpret_cast<float*>(memory + a_bytes() + b_bytes());
    float* spare = reinterpret_cast<float*>(memory + a_bytes() + b_bytes() + tile_bytes());
    for (at.column = columns.begin; at.column < columns.end; at.column += columns_) {
      at.width = std::min(columns_, columns.end - at.column);
      place_partial(at, spare);
      column_block(at);
    }
  }

  void place_partial(place& at, float* spare) {
    if constexpr (std::is_same_v<Out, float>) {
      at.partial = args_.c + at.rows.begin * args_.ldc + at.column;
      at.ld_partial = args_.ldc;
    } else {
      at.partial = spare;
      at.ld_partial = columns_;
    }
  }

  void column_block(place& at) {
    std::int64_t from = 0;
    do {
      at.depth = std::min(depth_, args_.k - from);
      at.first = from == 0;
      at.last = from + at.depth >= args_.k;
      pack<strip>(right_operand(args_).at(at.column, from), at.width, strips(at.width), at.depth, strip_size(), at.b);
      for (std::int64_t row = at.rows.begin; row < at.rows.end; row += rows_) {
        const std::int64_t height = std::min(rows_, at.rows.end - row);
        pack<panel>(left_operand(args_).at(row, from), height, panels(height), at.depth, panel_size(), at.a);
        row_block(at, row, height);
      }
      from += at.depth;
    } while (from < args_.k);
  }

  /// Packs `count` panels, `size` elements apart. Where lanes follow each other in memory, eight steps at a time of all
  /// panels: memory is then read along rows, not in short pieces from many pages.
  template <index_range (*Part)(std::int64_t, unsigned)>
  void pack(operand<In> source, std::int64_t lanes, unsigned count, std::int64_t depth, std::int64_t size, packed* out) {
    const std::int64_t chunk = source.lane_stride == 1 ? 8 * Tile::depth_step : depth;
    for (std::int64_t p = 0; p < depth; p += chunk) {
      for (unsigned i = 0; i < count; ++i) {
        const index_range part = Part(lanes, i);
        const int used = static_cast<int>(part.size());
        const int width = Part == strip ? Tile::columns : used;
        Tile::pack(source.at(part.begin, p), used, std::min(chunk, depth - p), width, out + i * size + steps(p) * width);
      }
    }
  }

  void row_block(const place& at, std::int64_t row, std::int64_t height) {
    for (unsigned j = 0; j < strips(at.width); ++j) {
      for (unsigned i = 0; i < panels(height); ++i) {
        const index_range part = panel(height, i);
        tile(at, row + part.begin, static_cast<int>(part.size()), j, at.a + i * panel_size());
      }
    }
  }

  /// One tile: the last block of k finishes C where there is more to do than to sum.
  void tile(const place& at, std::int64_t row, int height, unsigned index, const packed* a) {
    const packed* b = at.b + index * strip_size();
    const index_range columns = strip(at.width, index);
    float* sums = at.partial + (row - at.rows.begin) * at.ld_partial + columns.begin;
    if (at.last && !plain_) {
      finished_tile(at, row, at.column + columns.begin, height, static_cast<int>(columns.size()), a, b, sums);
    } else {
      summed_tile(at, height, static_cast<int>(columns.size()), a, b, sums);
    }
  }

  /// Adds a tile to `sums`, directly where the strip is full or there is room for a full one.
  void summed_tile(const place& at, int height, int width, const packed* a, const packed* b, float* sums) {
    constexpr bool in_c = std::is_same_v<Out, float>;
    const bool add = !at.first || (args_.accumulate && in_c);
    if (width == Tile::columns || !in_c) {
      return Tile::multiply(height, steps(at.depth), a, b, sums, at.ld_partial, add);
    }
    Tile::multiply(height, steps(at.depth), a, b, at.tile, Tile::columns, false);
    finish_args<float> to{};
    to.accumulate = add;
    to.c = sums;
    to.ldc = at.ld_partial;
    finish(at.tile, height, width, to);
  }

  void finished_tile(const place& at, std::int64_t row, std::int64_t column, int height, int width, const packed* a,
                     const packed* b, const float* sums) {
    finish_args<Out> to = finish_at(args_, row, column);
    if (!at.first) {
      to.partial = sums;
      to.ld_partial = at.ld_partial;
      to.accumulate = args_.accumulate && !std::is_same_v<Out, float>;  // f32 sums started with C
    }
    if constexpr (requires { Tile::multiply_and_round(height, at.depth, a, b, to); }) {
      if (only_rounds_ && width == Tile::columns) return Tile::multiply_and_round(height, steps(at.depth), a, b, to);
    }
    Tile::multiply(height, steps(at.depth), a, b, at.tile, Tile::columns, false);
    finish(at.tile, height, width, to);
  }

  template <class T>
  static void finish(const float* tile, int height, int width, const finish_args<T>& to) {
    dispatch<finish_kernel>(Tile::level, tile, std::int64_t{Tile::columns}, std::int64_t{height}, std::int64_t{width}, &to);
  }

  const gemm_args<In, Out>& args_;
  thread_grid grid_;
  std::int64_t depth_;
  std::int64_t rows_;
  std::int64_t columns_;
  bool plain_;        ///< C is the sums, with nothing to do but to add to it
  bool only_rounds_;  ///< C is the sums and the bias, rounded
  std::byte* memory_ = nullptr;
};

}  // namespace detail

/// The packed product. Reaches about nine tenths of the multiply-add peak on the shapes of training; works on any machine.
class packed_gemm {
 public:
  static constexpr std::string_view name = "packed";

  /// Uses `level` or less where the machine has less.
  explicit packed_gemm(simd_level level = detect_simd_level()) : level_{std::min(level, detect_simd_level())} {}

  template <class In, class Out>
  void multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments) {
    const gemm_args<In, Out> args = detail::checked(arguments);
    if (args.m == 0 || args.n == 0) return;
    // Below about four microseconds of work, waking a second thread costs more than it brings.
    const bool small = args.m * args.n * std::max<std::int64_t>(args.k, 1) < 200'000;
    dispatch(pool, memory, args, small ? 1 : pool.size());
  }

  [[nodiscard]] simd_level level() const noexcept { return level_; }
  [[nodiscard]] std::string describe() const { return "packed gemm (" + std::string{to_string(level_)} + ")"; }

 private:
  template <class In, class Out>
  void dispatch(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& args, unsigned threads) {
#if CAUSEWAY_X86_SIMD
    if constexpr (std::is_same_v<In, bf16>) {
      if (level_ >= simd_level::avx512_bf16) {
        return detail::packed_product<detail::avx512_bf16_tile, In, Out>{args, threads}.run(pool, memory);
      }
    }
    if (level_ >= simd_level::avx512) {
      return detail::packed_product<detail::avx512_tile, In, Out>{args, threads}.run(pool, memory);
    }
    if (level_ >= simd_level::avx2) {
      return detail::packed_product<detail::avx2_tile, In, Out>{args, threads}.run(pool, memory);
    }
#endif
    detail::packed_product<detail::portable_tile, In, Out>{args, threads}.run(pool, memory);
  }

  simd_level level_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_HPP

// ---- causeway/kernels/onednn_gemm.hpp ----
#ifndef CAUSEWAY_KERNELS_ONEDNN_GEMM_HPP
#define CAUSEWAY_KERNELS_ONEDNN_GEMM_HPP

// Matrix products by oneDNN, which compiles a kernel for each shape; kernels are kept. Empty unless causeway::onednn is
// linked, which defines CAUSEWAY_HAS_ONEDNN. oneDNN brings a thread pool (OpenMP's), and two pools that spin share no
// machine well: so each thread of ours runs a product of its own, for a part of C, and tells OpenMP to use one thread.

#if defined(CAUSEWAY_HAS_ONEDNN)

#include <oneapi/dnnl/dnnl.hpp>

#include <unordered_map>

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

/// All that a compiled product depends on.
struct onednn_key {
  std::array<std::int64_t, 7> sizes;  ///< m, n, k, lda, ldb, ldc, ld_residual
  bool transpose_a, transpose_b, half_in, half_out, accumulate, bias, residual, gelu;
  unsigned thread;  ///< each thread has memory objects of its own
  friend auto operator<=>(const onednn_key&, const onednn_key&) = default;
};

/// A compiled product and the memory objects that it reads and writes through.
struct onednn_product {
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::size_t scratch_bytes = 0;
};

template <class T>
inline constexpr auto onednn_type = std::is_same_v<T, bf16> ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

inline dnnl::memory::desc onednn_matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                                        dnnl::memory::data_type type) {
  return {{rows, columns}, type, transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
}

}  // namespace detail

/// oneDNN's product. One calling thread at a time. Throws dnnl::error where oneDNN cannot allocate. Without AVX-512, where
/// oneDNN has no bf16 product, and for k = 0, packed_gemm does the work.
class onednn_gemm {
 public:
  static constexpr std::string_view name = "onednn";

  template <class In, class Out>
  void multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments) {
    gemm_args<In, Out> args = detail::checked(arguments);
    if (args.m == 0 || args.n == 0) return;
    // oneDNN has no second output, so a product whose pre-activation is kept is ours.
    if (args.k == 0 || args.pre_activation != nullptr || (std::is_same_v<In, bf16> && !half_)) {
      return fallback_.multiply(pool, memory, args);
    }
    const detail::one_openmp_thread caller;
    const unsigned threads = args.m * args.n * args.k < 200'000 ? 1 : pool.size();
    const auto grid = detail::choose_grid(args.m, args.n, 16, threads);
    auto frame = memory.open();
    prepare(args, grid, frame);
    if (grid.size() == 1) return run(0);
    pool.run([&](unsigned index) {
      if (index >= grid.size()) return;
      const detail::one_openmp_thread here;
      run(index);
    });
  }

  [[nodiscard]] std::string describe() const {
    const dnnl_version_t* v = dnnl::version();
    return "onednn " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) +
           (half_ ? " (bf16)" : "");
  }

 private:
  template <class In, class Out>
  void prepare(const gemm_args<In, Out>& args, detail::thread_grid grid, scratch::frame& frame) {
    current_.assign(grid.size(), nullptr);
    for (unsigned i = 0; i < grid.size(); ++i) {
      const index_range rows = share_of(args.m, i / grid.columns, grid.rows);
      const index_range columns = share_of(args.n, i % grid.columns, grid.columns, 16);
      if (rows.size() > 0 && columns.size() > 0) current_[i] = &place(part_of(args, rows, columns), i, frame);
    }
  }

  void run(unsigned index) {
    if (current_[index] == nullptr) return;
    dnnl::stream& stream = streams_.at(index);
    current_[index]->primitive.execute(stream, current_[index]->arguments);
    stream.wait();
  }

  template <class In, class Out>
  static gemm_args<In, Out> part_of(gemm_args<In, Out> args, index_range rows, index_range columns) noexcept {
    args.a += rows.begin * (args.transpose_a ? 1 : args.lda);
    args.b += columns.begin * (args.transpose_b ? args.ldb : 1);
    args.c += rows.begin * args.ldc + columns.begin;
    if (args.bias != nullptr) args.bias += columns.begin;
    if (args.residual != nullptr) args.residual += rows.begin * args.ld_residual + columns.begin;
    args.m = rows.size();
    args.n = columns.size();
    return args;
  }

  /// The compiled product for one thread's part, with its memory objects set to this call's pointers.
  template <class In, class Out>
  detail::onednn_product& place(const gemm_args<In, Out>& args, unsigned thread, scratch::frame& frame) {
    while (streams_.size() <= thread) streams_.emplace_back(engine_);
    const detail::onednn_key key{{args.m, args.n, args.k, args.lda, args.ldb, args.ldc, args.ld_residual},
                                 args.transpose_a,
                                 args.transpose_b,
                                 std::is_same_v<In, bf16>,
                                 std::is_same_v<Out, bf16>,
                                 args.accumulate,
                                 args.bias != nullptr,
                                 args.residual != nullptr,
                                 args.act == activation::gelu,
                                 thread};
    auto found = products_.find(key);
    if (found == products_.end()) found = products_.emplace(key, compile(args)).first;
    detail::onednn_product& p = found->second;
    set(p, DNNL_ARG_SRC, args.a);
    set(p, DNNL_ARG_WEIGHTS, args.b);
    set(p, DNNL_ARG_DST, args.c);
    if (args.bias != nullptr) set(p, DNNL_ARG_BIAS, args.bias);
    if (args.residual != nullptr) set(p, residual_argument(args), args.residual);
    set(p, DNNL_ARG_SCRATCHPAD, frame.take<std::byte>(std::max<std::size_t>(p.scratch_bytes, 1)));
    return p;
  }

  static void set(detail::onednn_product& product, int argument, const void* data) {
    product.arguments.at(argument).set_data_handle(const_cast<void*>(data));
  }

  /// The residual is added by the last post-operation, after the activation.
  template <class In, class Out>
  static int residual_argument(const gemm_args<In, Out>& args) noexcept {
    const int position = args.act == activation::gelu ? 1 : 0;
    return DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1;
  }

  template <class In, class Out>
  detail::onednn_product compile(const gemm_args<In, Out>& args) {
    using dnnl::memory;
    constexpr auto f32 = memory::data_type::f32;
    const auto a = detail::onednn_matrix(args.m, args.k, args.lda, args.transpose_a, detail::onednn_type<In>);
    const auto b = detail::onednn_matrix(args.k, args.n, args.ldb, args.transpose_b, detail::onednn_type<In>);
    const auto c = detail::onednn_matrix(args.m, args.n, args.ldc, false, detail::onednn_type<Out>);
    const memory::desc bias{{1, args.n}, f32, memory::dims{args.n, 1}};
    const auto residual = detail::onednn_matrix(args.m, args.n, args.ld_residual, false, f32);
    dnnl::post_ops after;
    if (args.accumulate) after.append_sum(1.0F);
    if (args.act == activation::gelu) after.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
    if (args.residual != nullptr) after.append_binary(dnnl::algorithm::binary_add, residual);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc what = args.bias != nullptr ? dnnl::matmul::desc{a, b, bias, c} : dnnl::matmul::desc{a, b, c};
    const dnnl::matmul::primitive_desc how{what, attributes, engine_};

    detail::onednn_product product;
    product.primitive = dnnl::matmul{how};
    product.scratch_bytes = how.scratchpad_desc().get_size();
    const auto add = [&](int argument, const memory::desc& d) {
      product.arguments.emplace(argument, memory{d, engine_, DNNL_MEMORY_NONE});
    };
    add(DNNL_ARG_SRC, a);
    add(DNNL_ARG_WEIGHTS, b);
    add(DNNL_ARG_DST, c);
    add(DNNL_ARG_SCRATCHPAD, how.scratchpad_desc());
    if (args.bias != nullptr) add(DNNL_ARG_BIAS, bias);
    if (args.residual != nullptr) add(residual_argument(args), residual);
    return product;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  bool half_ = detect_simd_level() >= simd_level::avx512;
  std::vector<dnnl::stream> streams_;
  std::map<detail::onednn_key, detail::onednn_product> products_;
  std::vector<detail::onednn_product*> current_;
  packed_gemm fallback_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_HAS_ONEDNN

#endif  // CAUSEWAY_KERNELS_ONEDNN_GEMM_HPP

// ---- causeway/kernels/default_gemm.hpp ----
#ifndef CAUSEWAY_KERNELS_DEFAULT_GEMM_HPP
#define CAUSEWAY_KERNELS_DEFAULT_GEMM_HPP

// The matrix product that a backend uses when its user names none: oneDNN's where causeway::onednn is linked, else ours. A
// program must be linked the same way in all its parts, for the alias is part of the types that contain it.

namespace causeway::inline CAUSEWAY_ABI::kernels {

#if defined(CAUSEWAY_HAS_ONEDNN)
using default_gemm = onednn_gemm;
#else
using default_gemm = packed_gemm;
#endif

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_DEFAULT_GEMM_HPP

// ---- causeway/kernels/dropout.hpp ----
#ifndef CAUSEWAY_KERNELS_DROPOUT_HPP
#define CAUSEWAY_KERNELS_DROPOUT_HPP

// Dropout without a stored mask: whether element i lives is a pure function of (seed, stream, i), so the backward pass
// applies the same function to the gradient, on any machine and with any number of threads.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

// One Philox counter serves four elements that lie `dropout_counters` apart, so that a vector of counters makes vectors of
// neighbouring elements.
inline constexpr std::int64_t dropout_counters = 16;
inline constexpr std::int64_t dropout_block = 4 * dropout_counters;

/// An element is dropped when its 32 random bits are below this.
constexpr std::uint32_t dropout_threshold(float rate) noexcept {
  const double scaled = static_cast<double>(rate) * 0x1p32;
  return scaled >= 0x1p32 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(scaled);
}

}  // namespace detail

/// Whether `dropout_apply` keeps element `index`.
constexpr bool dropout_keeps(float rate, std::uint64_t seed, std::uint64_t stream, std::int64_t index) noexcept {
  const auto block = static_cast<std::uint64_t>(index / detail::dropout_block);
  const auto within = static_cast<std::uint64_t>(index % detail::dropout_block);
  const std::uint64_t counter = block * detail::dropout_counters + within % detail::dropout_counters;
  const auto words = philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
                             static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)},
                            seed);
  return words[within / detail::dropout_counters] >= detail::dropout_threshold(rate);
}

namespace detail {

using u64x8 [[gnu::vector_size(64)]] = std::uint64_t;
using u32x8 [[gnu::vector_size(32)]] = std::uint32_t;

/// The high and low halves of 32-bit words times a 32-bit constant; words lie in 64-bit lanes.
CAUSEWAY_ALWAYS_INLINE void multiply_halves(u64x8& high, u64x8& low, const u64x8& words, std::uint64_t factor) {
  const u64x8 product = words * factor;
  high = product >> 32U;
  low = product & 0xFFFFFFFFU;
}

/// Philox4x32-10 of eight consecutive counters; words[w] holds word w of each.
CAUSEWAY_ALWAYS_INLINE void philox_eight(u64x8* words, std::uint64_t counter, std::uint64_t stream, std::uint64_t seed) {
  const u64x8 step = {0, 1, 2, 3, 4, 5, 6, 7};
  const u64x8 counters = step + counter;
  words[0] = counters & 0xFFFFFFFFU;
  words[1] = counters >> 32U;
  words[2] = (counters & 0U) + (stream & 0xFFFFFFFFU);
  words[3] = (counters & 0U) + (stream >> 32U);
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32U);
  for (int round = 0; round < 10; ++round) {
    u64x8 high0, low0, high1, low1;
    multiply_halves(high0, low0, words[0], 0xD2511F53U);
    multiply_halves(high1, low1, words[2], 0xCD9E8D57U);
    words[0] = high1 ^ words[1] ^ std::uint64_t{k0};
    words[1] = low1;
    words[2] = high0 ^ words[3] ^ std::uint64_t{k1};
    words[3] = low0;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

struct dropout_kernel {
  static constexpr bool exact = true;

  /// [begin, end) of x; `begin` is a multiple of dropout_block.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(T* x, std::int64_t begin, std::int64_t end, std::uint32_t threshold, float scale,
                                         std::uint64_t seed, std::uint64_t stream) {
    for (std::int64_t block = begin; block < end; block += dropout_block) {
      u64x8 words[8];
      const auto counter = static_cast<std::uint64_t>(block / dropout_block * dropout_counters);
      philox_eight(words, counter, stream, seed);
      philox_eight(words + 4, counter + 8, stream, seed);
      const std::int64_t count = end - block < dropout_block ? end - block : dropout_block;
      for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, factor;
        keep_factors(factor, words[i / vector_lanes], words[4 + i / vector_lanes], threshold, scale);
        load(v, x + block + i, part);
        store(x + block + i, v * factor, part);
      });
    }
  }

  CAUSEWAY_ALWAYS_INLINE static void keep_factors(f32x16& factor, const u64x8& first, const u64x8& second,
                                                  std::uint32_t threshold, float scale) {
    const u32x8 a = __builtin_convertvector(first, u32x8);
    const u32x8 b = __builtin_convertvector(second, u32x8);
    const u32x16 bits = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    f32x16 kept;
    broadcast(kept, scale);
    factor = bits >= threshold ? kept : f32x16{};
  }
};

}  // namespace detail

/// x[i] *= keeps(i) / (1 - rate). Apply it again, with the same numbers, to the gradient. `rate` in [0, 1); 0 does nothing.
/// Moves 8 bytes an element (f32), 4 (bf16), and computes 10 rounds of Philox for four elements.
template <Activation T>
void dropout_apply(thread_pool& pool, T* x, std::int64_t count, float rate, std::uint64_t seed, std::uint64_t stream,
                   simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(rate >= 0.0F && rate < 1.0F);
  if (rate == 0.0F) return;
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::dropout_kernel>(level, x, part.begin, part.end, detail::dropout_threshold(rate),
                                             1.0F / (1.0F - rate), seed, stream);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_DROPOUT_HPP

// ---- causeway/kernels/elementwise.hpp ----
#ifndef CAUSEWAY_KERNELS_ELEMENTWISE_HPP
#define CAUSEWAY_KERNELS_ELEMENTWISE_HPP

// Vector arithmetic on flat arrays. One rounding an operation at every level, so replicas that apply the same update to the
// same numbers stay equal bit for bit whatever processors they run on.

namespace causeway::inline CAUSEWAY_ABI::kernels {

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

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ELEMENTWISE_HPP

// ---- causeway/kernels/embedding.hpp ----
#ifndef CAUSEWAY_KERNELS_EMBEDDING_HPP
#define CAUSEWAY_KERNELS_EMBEDDING_HPP

// Token and position tables: look-up, and the gradient, which is a scatter. The gradient is cut by columns, so every thread
// adds its own part of each row in token order: deterministic without atomics, and the same for any number of threads.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

struct embedding_forward_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::int32_t* tokens, const float* token_table, const float* position_table,
                                         float* x, std::int64_t begin, std::int64_t end, std::int64_t positions,
                                         std::int64_t columns) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* token = token_table + tokens[row] * columns;
      const float* position = position_table == nullptr ? nullptr : position_table + row % positions * columns;
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, p{};
        load(v, token + i, part);
        if (position != nullptr) load(p, position + i, part);
        store(x + row * columns + i, v + p, part);
      });
    }
  }
};

/// table[row_of(row)] += dx[row] for all rows, columns [0, count) of tables and dx that are `stride` wide.
struct embedding_backward_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const std::int32_t* tokens, const float* dx, float* dtoken, float* dposition,
                                         std::int64_t rows, std::int64_t positions, std::int64_t count,
                                         std::int64_t stride) {
    for (std::int64_t row = 0; row < rows; ++row) {
      add_row(dtoken + tokens[row] * stride, dx + row * stride, count);
      if (dposition != nullptr) add_row(dposition + row % positions * stride, dx + row * stride, count);
    }
  }

  CAUSEWAY_ALWAYS_INLINE static void add_row(float* sum, const float* x, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 s, v;
      load(s, sum + i, part);
      load(v, x + i, part);
      store(sum + i, s + v, part);
    });
  }
};

}  // namespace detail

/// x[b,t] = token_table[tokens[b,t]] + position_table[t], f32 [batch, T, C]; position_table may be null. Tokens must be
/// rows of the table. Moves 8 bytes an element, and 4 more where positions do not stay in the cache.
inline void embedding_forward(thread_pool& pool, const std::int32_t* tokens, const float* token_table,
                              const float* position_table, float* x, std::int64_t batch, std::int64_t T, std::int64_t C,
                              simd_level level = detect_simd_level()) {
  detail::for_rows(pool, batch * T, C, [&](index_range part) {
    detail::dispatch<detail::embedding_forward_kernel>(level, tokens, token_table, position_table, x, part.begin, part.end,
                                                       T, C);
  });
}

/// dtoken[tokens[b,t]] += dx[b,t] and dposition[t] += dx[b,t]; dposition may be null. Moves 12 bytes an element, and 8 more
/// where positions do not stay in the cache.
inline void embedding_backward(thread_pool& pool, scratch& memory, const std::int32_t* tokens, const float* dx,
                               float* dtoken, float* dposition, std::int64_t batch, std::int64_t T, std::int64_t C,
                               std::int64_t vocabulary, simd_level level = detect_simd_level()) {
  (void)memory;
  (void)vocabulary;
  const auto add_columns = [&](index_range part) {
    float* positions = dposition == nullptr ? nullptr : dposition + part.begin;
    detail::dispatch<detail::embedding_backward_kernel>(level, tokens, dx + part.begin, dtoken + part.begin, positions,
                                                        batch * T, T, part.size(), C);
  };
  if (batch * T * C <= detail::smallest_share) {
    add_columns({0, C});
  } else {
    pool.for_range(C, 16, add_columns);
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_EMBEDDING_HPP

// ---- causeway/kernels/norm.hpp ----
#ifndef CAUSEWAY_KERNELS_NORM_HPP
#define CAUSEWAY_KERNELS_NORM_HPP

// Layer normalisation (Ba et al. 2016) and RMS normalisation (Zhang and Sennrich 2019) over the rows of a matrix. A row is
// read from memory once and revisited in the first-level cache; the variance is taken about the mean, not from the sum of
// squares. The sums run in f32 lanes; the gradients of gain and bias go through one partial sum per block of rows, added in
// order, and blocks depend on the number of rows alone: the result is the same bits for any number of threads.

namespace causeway::inline CAUSEWAY_ABI::kernels {

namespace detail {

CAUSEWAY_ALWAYS_INLINE float row_sum(const float* x, std::int64_t columns) {
  return sum_lanes(
      columns,
      [&](f32x16& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v;
        load(v, x + i, whole{});
        sum += v;
      },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return x[i]; });
}

CAUSEWAY_ALWAYS_INLINE float row_sum_of_squares(const float* x, float center, std::int64_t columns) {
  return sum_lanes(
      columns,
      [&](f32x16& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v;
        load(v, x + i, whole{});
        v -= center;
        sum += v * v;
      },
      [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return (x[i] - center) * (x[i] - center); });
}

/// `Centered` is layer normalisation; without it, RMS normalisation (no mean, no bias).
template <bool Centered>
struct norm_forward_kernel {
  static constexpr bool exact = false;
  template <class Out>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, const float* gain, const float* bias, Out* y, float* mean,
                                         float* rstd, std::int64_t rows, std::int64_t columns, float epsilon) {
    const auto count = static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      const float center = Centered ? row_sum(x, columns) / count : 0.0F;
      const float scale = 1.0F / std::sqrt(row_sum_of_squares(x, center, columns) / count + epsilon);
      if constexpr (Centered) mean[row] = center;
      rstd[row] = scale;
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, g, b{};
        load(v, x + i, part);
        load(g, gain + i, part);
        if constexpr (Centered) load(b, bias + i, part);
        store(y + i, (v - center) * scale * g + b, part);
      });
    }
  }
};

template <bool Centered>
struct norm_backward_kernel {
  static constexpr bool exact = false;

  /// dgain += dy·xhat and dbias += dy for one row; also the row's sums of dy·gain and dy·gain·xhat.
  template <class In>
  CAUSEWAY_ALWAYS_INLINE static void parameters(const float* x, const float* gain, const In* dy, float* dgain, float* dbias,
                                                std::int64_t columns, float center, float scale, float& sum,
                                                float& sum_xhat) {
    f32x16 sums{}, sums_xhat{};
    for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v, g, d, dg;
      load(v, x + i, part);
      load(g, gain + i, part);
      load(d, dy + i, part);  // zero beyond the tail, so the sums are right there too
      load(dg, dgain + i, part);
      const f32x16 xhat = (v - center) * scale;
      store(dgain + i, dg + d * xhat, part);
      if constexpr (Centered) {
        f32x16 db;
        load(db, dbias + i, part);
        store(dbias + i, db + d, part);
        sums += d * g;
      }
      sums_xhat += d * g * xhat;
    });
    sum = horizontal_sum(sums);
    sum_xhat = horizontal_sum(sums_xhat);
  }

  template <class In>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, const float* gain, const float* mean, const float* rstd,
                                         const In* dy, float* dx, bool accumulate, float* dgain, float* dbias,
                                         std::int64_t rows, std::int64_t columns) {
    const float inverse = 1.0F / static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, x += columns, dy += columns, dx += columns) {
      const float center = Centered ? mean[row] : 0.0F;
      const float scale = rstd[row];
      float sum = 0.0F;
      float sum_xhat = 0.0F;
      parameters(x, gain, dy, dgain, dbias, columns, center, scale, sum, sum_xhat);
      sum *= inverse;
      sum_xhat *= inverse;
      for_lanes(columns, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, g, d, before{};
        load(v, x + i, part);
        load(g, gain + i, part);
        load(d, dy + i, part);
        if (accumulate) load(before, dx + i, part);
        const f32x16 xhat = (v - center) * scale;
        store(dx + i, before + scale * (d * g - sum - xhat * sum_xhat), part);
      });
    }
  }
};

template <bool Centered, class Out>
void norm_forward(thread_pool& pool, const float* x, const float* gain, const float* bias, Out* y, float* mean, float* rstd,
                  std::int64_t rows, std::int64_t columns, float epsilon, simd_level level) {
  for_rows(pool, rows, columns, [&](index_range part) {
    dispatch<norm_forward_kernel<Centered>>(level, x + part.begin * columns, gain, bias, y + part.begin * columns,
                                            Centered ? mean + part.begin : mean, rstd + part.begin, part.size(), columns,
                                            epsilon);
  });
}

template <bool Centered, class In>
void norm_backward(thread_pool& pool, scratch& memory, const float* x, const float* gain, const float* mean,
                   const float* rstd, const In* dy, float* dx, bool accumulate_dx, float* dgain, float* dbias,
                   std::int64_t rows, std::int64_t columns, simd_level level) {
  constexpr std::int64_t arrays = Centered ? 2 : 1;
  const std::int64_t blocks = row_blocks(rows);
  const std::int64_t stride = (columns + 15) / 16 * 16;  // blocks write different cache lines
  auto frame = memory.open();
  auto* partials = frame.template take<float>(static_cast<std::size_t>(blocks * arrays * stride));
  for_rows(pool, blocks, (rows + blocks - 1) / blocks * columns, [&](index_range part) {
    for (std::int64_t block = part.begin; block < part.end; ++block) {
      const index_range r = share_of(rows, static_cast<unsigned>(block), static_cast<unsigned>(blocks));
      float* gains = partials + block * arrays * stride;
      std::fill_n(gains, arrays * stride, 0.0F);
      dispatch<norm_backward_kernel<Centered>>(level, x + r.begin * columns, gain, Centered ? mean + r.begin : mean,
                                               rstd + r.begin, dy + r.begin * columns, dx + r.begin * columns,
                                               accumulate_dx, gains, gains + (arrays - 1) * stride, r.size(), columns);
    }
  });
  if (dgain == nullptr) return;
  dispatch<column_sum_kernel>(level, static_cast<const float*>(partials), dgain, blocks, columns, arrays * stride);
  if constexpr (Centered) {
    dispatch<column_sum_kernel>(level, static_cast<const float*>(partials + stride), dbias, blocks, columns,
                                arrays * stride);
  }
}

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) · gain + bias, row by row; also stores mean[rows] and rstd[rows] for the
/// backward pass. x [rows, columns], gain and bias [columns]. Moves 8 bytes an element (Out f32), 6 (bf16).
template <Activation Out>
void layer_norm_forward(thread_pool& pool, const float* x, const float* gain, const float* bias, Out* y, float* mean,
                        float* rstd, std::int64_t rows, std::int64_t columns, float epsilon,
                        simd_level level = detect_simd_level()) {
  detail::norm_forward<true>(pool, x, gain, bias, y, mean, rstd, rows, columns, epsilon, level);
}

/// The gradient of layer_norm_forward. dx is overwritten, or added to with `accumulate_dx` (the residual stream); dgain and
/// dbias are always added to, or both null. Moves 12 bytes an element (In f32), 10 (bf16), and 4 more to accumulate.
template <Activation In>
void layer_norm_backward(thread_pool& pool, scratch& memory, const float* x, const float* gain, const float* mean,
                         const float* rstd, const In* dy, float* dx, bool accumulate_dx, float* dgain, float* dbias,
                         std::int64_t rows, std::int64_t columns, simd_level level = detect_simd_level()) {
  detail::norm_backward<true>(pool, memory, x, gain, mean, rstd, dy, dx, accumulate_dx, dgain, dbias, rows, columns, level);
}

/// y = x / sqrt(mean of x² + epsilon) · gain, row by row; also stores rstd[rows]. Moves 8 bytes an element (Out f32), 6
/// (bf16).
template <Activation Out>
void rms_norm_forward(thread_pool& pool, const float* x, const float* gain, Out* y, float* rstd, std::int64_t rows,
                      std::int64_t columns, float epsilon, simd_level level = detect_simd_level()) {
  detail::norm_forward<false>(pool, x, gain, nullptr, y, nullptr, rstd, rows, columns, epsilon, level);
}

/// The gradient of rms_norm_forward; as layer_norm_backward.
template <Activation In>
void rms_norm_backward(thread_pool& pool, scratch& memory, const float* x, const float* gain, const float* rstd,
                       const In* dy, float* dx, bool accumulate_dx, float* dgain, std::int64_t rows, std::int64_t columns,
                       simd_level level = detect_simd_level()) {
  detail::norm_backward<false>(pool, memory, x, gain, nullptr, rstd, dy, dx, accumulate_dx, dgain, nullptr, rows, columns,
                               level);
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_NORM_HPP

// ---- causeway/kernels/reduce.hpp ----
#ifndef CAUSEWAY_KERNELS_REDUCE_HPP
#define CAUSEWAY_KERNELS_REDUCE_HPP

// Sums over flat arrays, in f64. An array is cut into 64 blocks whatever the number of threads, and the blocks' sums are
// added in order: the result is the same bits on every machine and for every number of threads, so peers with different
// processors clip by the same gradient norm.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace causeway::inline CAUSEWAY_ABI::kernels {

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

struct finite_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static bool run(const float* x, std::int64_t count) {
    f32x16 seen{};  // x * 0 is NaN where x is not finite, and NaN stays
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      detail::load(v, x + i, part);
      seen += v * 0.0F;
    });
    return horizontal_sum(seen) == 0.0F;
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

/// Sum of x[i]. Reads 4 bytes an element.
inline double sum(thread_pool& pool, const float* x, std::int64_t count, simd_level level = detect_simd_level()) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::sum_kernel>(level, x + part.begin, part.size());
  });
}

/// Sum of x[i]·y[i]. Reads 8 bytes an element.
inline double dot(thread_pool& pool, const float* x, const float* y, std::int64_t count,
                  simd_level level = detect_simd_level()) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::dot_kernel>(level, x + part.begin, y + part.begin, part.size());
  });
}

/// Sum of x[i]². Reads 4 bytes an element. NaN or infinite where x is.
inline double sum_of_squares(thread_pool& pool, const float* x, std::int64_t count,
                             simd_level level = detect_simd_level()) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::square_kernel>(level, x + part.begin, part.size());
  });
}

/// Whether no element is NaN or infinite. Reads 4 bytes an element.
inline bool all_finite(thread_pool& pool, const float* x, std::int64_t count, simd_level level = detect_simd_level()) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
           return detail::dispatch<detail::finite_kernel>(level, x + part.begin, part.size()) ? 0.0 : 1.0;
         }) == 0.0;
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_REDUCE_HPP

// ---- causeway/kernels/rotary.hpp ----
#ifndef CAUSEWAY_KERNELS_ROTARY_HPP
#define CAUSEWAY_KERNELS_ROTARY_HPP

// Rotary position embedding (Su et al. 2021), in the layout of Llama's published weights: element i of a head is paired
// with element i + head_size/2.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// cos and sin of position · theta^(-2i/head_size), f32 [T, head_size/2] each, made once. Angles are computed in f64.
class rotary_table {
 public:
  rotary_table() = default;
  rotary_table(std::int64_t positions, std::int64_t head_size, double theta = 10000.0)
      : cosine_{static_cast<std::size_t>(positions * (head_size / 2))},
        sine_{cosine_.size()},
        positions_{positions},
        head_size_{head_size},
        theta_{theta} {
    CAUSEWAY_EXPECT(head_size % 2 == 0);
    const std::int64_t half = head_size / 2;
    for (std::int64_t t = 0; t < positions; ++t) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_size);
        const double angle = static_cast<double>(t) * std::pow(theta, exponent);
        cosine_[static_cast<std::size_t>(t * half + i)] = static_cast<float>(std::cos(angle));
        sine_[static_cast<std::size_t>(t * half + i)] = static_cast<float>(std::sin(angle));
      }
    }
  }

  [[nodiscard]] const float* cosine() const noexcept { return cosine_.data(); }
  [[nodiscard]] const float* sine() const noexcept { return sine_.data(); }
  [[nodiscard]] std::int64_t positions() const noexcept { return positions_; }
  [[nodiscard]] std::int64_t head_size() const noexcept { return head_size_; }
  [[nodiscard]] double theta() const noexcept { return theta_; }

 private:
  aligned_buffer<float> cosine_;
  aligned_buffer<float> sine_;
  std::int64_t positions_ = 0;
  std::int64_t head_size_ = 0;
  double theta_ = 0.0;
};

namespace detail {

struct rotary_kernel {
  static constexpr bool exact = false;

  /// Rows [begin, end) of [batch·T]; `sign` is -1 for the inverse.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* cosine, const float* sine, T* x, std::int64_t begin, std::int64_t end,
                                         std::int64_t positions, std::int64_t stride, std::int64_t heads,
                                         std::int64_t head_size, float sign) {
    const std::int64_t half = head_size / 2;
    for (std::int64_t row = begin; row < end; ++row) {
      const float* c = cosine + row % positions * half;
      const float* s = sine + row % positions * half;
      for (T* head = x + row * stride; head < x + row * stride + heads * head_size; head += head_size) {
        for_lanes(half, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
          f32x16 first, second, cos, sin;
          load(first, head + i, part);
          load(second, head + half + i, part);
          load(cos, c + i, part);
          load(sin, s + i, part);
          sin *= sign;
          store(head + i, first * cos - second * sin, part);
          store(head + half + i, second * cos + first * sin, part);
        });
      }
    }
  }
};

}  // namespace detail

/// Rotates `heads` contiguous heads of every row in place; `inverse` rotates back, which is also the gradient. `qkv` points
/// at the first head of row 0; row b·T+t is `row_stride` elements further for each row and has position t. Moves 8 bytes
/// an element (f32), 4 (bf16).
template <Activation Act>
void rotary_apply(thread_pool& pool, const rotary_table& table, Act* qkv, std::int64_t batch, std::int64_t T,
                  std::int64_t row_stride, std::int64_t heads, std::int64_t head_size, bool inverse,
                  simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(T <= table.positions() && head_size == table.head_size());
  detail::for_rows(pool, batch * T, heads * head_size, [&](index_range part) {
    detail::dispatch<detail::rotary_kernel>(level, table.cosine(), table.sine(), qkv, part.begin, part.end, T, row_stride,
                                            heads, head_size, inverse ? -1.0F : 1.0F);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ROTARY_HPP

// ---- causeway/kernels/backend.hpp ----
#ifndef CAUSEWAY_KERNELS_BACKEND_HPP
#define CAUSEWAY_KERNELS_BACKEND_HPP

// What computes a model: where its numbers lie and the operations on them, in one place. Ops and models are written over a
// backend; this one is the processor, cuda/backend.hpp a GPU. A model owns one backend.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Threads, scratch memory and a matrix product of a processor. For one calling thread at a time. The operations are those
/// of the headers of this folder, which say what they compute and what they cost.
template <class GemmType = default_gemm>
  requires Gemm<GemmType>
class basic_cpu_backend {
 public:
  using gemm_type = GemmType;

  explicit basic_cpu_backend(unsigned threads = 1, GemmType gemm = GemmType{}) : pool_{threads}, gemm_{std::move(gemm)} {}

  [[nodiscard]] thread_pool& pool() noexcept { return pool_; }
  [[nodiscard]] scratch& memory() noexcept { return memory_; }
  [[nodiscard]] GemmType& gemm() noexcept { return gemm_; }

  /// One line for a person, such as "cpu: packed gemm (avx512, avx512_bf16), 2 threads".
  [[nodiscard]] std::string describe() const {
    const unsigned threads = pool_.size();
    return "cpu: " + gemm_.describe() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }

  /// What has the operations below, and `copy` and `copy_in`: here the backend itself.
  [[nodiscard]] basic_cpu_backend& ops() noexcept { return *this; }

  // ---- memory and order ---------------------------------------------------------------------------------------------

  /// Where parameters, gradients and activations lie. Whoever uses it lets the backend outlive them.
  [[nodiscard]] memory_source source() const noexcept { return {}; }
  /// Until this returns, the host must not touch what operations read or write; it gives the first error of any of them
  /// since the last call. A processor is done at once.
  [[nodiscard]] result<void> finish() const noexcept { return {}; }
  /// A hint that operations will use these next and that the host may have had them: nothing here.
  void fetch(const void*, std::size_t) const noexcept {}
  /// From memory of the host, which may change as soon as this returns.
  void copy_in(void* to, const void* host, std::size_t bytes) const noexcept { std::memcpy(to, host, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) const noexcept { std::memcpy(to, from, bytes); }

  // ---- operations ---------------------------------------------------------------------------------------------------

  template <class In, class Out>
  void multiply(const gemm_args<In, Out>& args) {
    gemm_.multiply(pool_, memory_, args);
  }
  /// C = op(A) op(B) times the slope of GELU at x [m, n]: the way back through a product whose operand GELU made. No bias,
  /// residual or activation; the rows of C are contiguous.
  template <class T>
  void multiply_gelu_gradient(const gemm_args<T, T>& args, const T* x) {
    multiply(args);
    gelu_backward(x, args.c, args.c, args.m * args.n);
  }
  void zero(float* y, std::int64_t count) { kernels::zero(pool_, y, count); }
  [[nodiscard]] double sum_of_squares(const float* x, std::int64_t count) {
    return kernels::sum_of_squares(pool_, x, count);
  }
  template <class T>
  void add(T* y, const T* a, const T* b, std::int64_t count) {
    kernels::add(pool_, y, a, b, count);
  }
  void convert(const float* from, bf16* to, std::int64_t count) { kernels::convert(pool_, from, to, count); }

  void embedding_forward(const std::int32_t* tokens, const float* table, const float* positions, float* x,
                         std::int64_t batch, std::int64_t T, std::int64_t C) {
    kernels::embedding_forward(pool_, tokens, table, positions, x, batch, T, C);
  }
  void embedding_backward(const std::int32_t* tokens, const float* dx, float* dtable, float* dpositions, std::int64_t batch,
                          std::int64_t T, std::int64_t C, std::int64_t vocabulary) {
    kernels::embedding_backward(pool_, memory_, tokens, dx, dtable, dpositions, batch, T, C, vocabulary);
  }

  template <class Out>
  void layer_norm_forward(const float* x, const float* gain, const float* bias, Out* y, float* mean, float* rstd,
                          std::int64_t rows, std::int64_t columns, float epsilon) {
    kernels::layer_norm_forward(pool_, x, gain, bias, y, mean, rstd, rows, columns, epsilon);
  }
  template <class In>
  void layer_norm_backward(const float* x, const float* gain, const float* mean, const float* rstd, const In* dy, float* dx,
                           bool accumulate, float* dgain, float* dbias, std::int64_t rows, std::int64_t columns) {
    kernels::layer_norm_backward(pool_, memory_, x, gain, mean, rstd, dy, dx, accumulate, dgain, dbias, rows, columns);
  }
  template <class Out>
  void rms_norm_forward(const float* x, const float* gain, Out* y, float* rstd, std::int64_t rows, std::int64_t columns,
                        float epsilon) {
    kernels::rms_norm_forward(pool_, x, gain, y, rstd, rows, columns, epsilon);
  }
  template <class In>
  void rms_norm_backward(const float* x, const float* gain, const float* rstd, const In* dy, float* dx, bool accumulate,
                         float* dgain, std::int64_t rows, std::int64_t columns) {
    kernels::rms_norm_backward(pool_, memory_, x, gain, rstd, dy, dx, accumulate, dgain, rows, columns);
  }

  template <class T>
  void gelu_forward(const T* x, T* y, std::int64_t count) {
    kernels::gelu_forward(pool_, x, y, count);
  }
  template <class T>
  void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t count) {
    kernels::gelu_backward(pool_, x, dy, dx, count);
  }
  template <class T>
  void swiglu_forward(const T* gate_up, T* y, std::int64_t rows, std::int64_t hidden) {
    kernels::swiglu_forward(pool_, gate_up, y, rows, hidden);
  }
  template <class T>
  void swiglu_backward(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows, std::int64_t hidden) {
    kernels::swiglu_backward(pool_, gate_up, dy, dgate_up, rows, hidden);
  }
  template <class T>
  void bias_gradient(const T* dy, float* dbias, std::int64_t rows, std::int64_t columns) {
    kernels::bias_gradient(pool_, memory_, dy, dbias, rows, columns);
  }
  template <class T>
  void dropout(T* x, std::int64_t count, float rate, std::uint64_t seed, std::uint64_t stream) {
    kernels::dropout_apply(pool_, x, count, rate, seed, stream);
  }
  template <class T>
  void rotary(const rotary_table& table, T* qkv, std::int64_t batch, std::int64_t T_, std::int64_t row_stride,
              std::int64_t heads, std::int64_t head_size, bool inverse) {
    kernels::rotary_apply(pool_, table, qkv, batch, T_, row_stride, heads, head_size, inverse);
  }

  template <class T>
  void attention_forward(const attention_shape& shape, const T* q, const T* k, const T* v, T* o, float* logsumexp) {
    kernels::attention_forward(pool_, memory_, shape, q, k, v, o, logsumexp);
  }
  template <class T>
  void attention_backward(const attention_shape& shape, const T* q, const T* k, const T* v, const T* o, const T* d_o,
                          const float* logsumexp, T* dq, T* dk, T* dv) {
    kernels::attention_backward(pool_, memory_, shape, q, k, v, o, d_o, logsumexp, dq, dk, dv);
  }
  /// The targets are in memory of the host.
  template <class T>
  [[nodiscard]] double cross_entropy(const T* x, const T* w, const std::int32_t* targets, std::int64_t rows, std::int64_t C,
                                     std::int64_t V, float grad_scale, T* dx, float* dw) {
    return kernels::cross_entropy(pool_, memory_, gemm_, x, w, targets, rows, C, V, grad_scale, dx, dw);
  }

 private:
  thread_pool pool_;
  scratch memory_;
  GemmType gemm_;
};

using cpu_backend = basic_cpu_backend<>;

/// What models and trainers ask of a backend. `ops()` has the operations of basic_cpu_backend; `pool()` are threads of the
/// host, for what is done there.
template <class B>
concept Backend = std::move_constructible<B> &&
    requires(B& b, const B& constant, float* values, const gemm_args<float, float>& f32,
             const gemm_args<bf16, float>& mixed) {
  { b.pool() } -> std::same_as<thread_pool&>;
  { b.source() } -> std::same_as<memory_source>;
  { b.finish() } -> std::same_as<result<void>>;
  { b.sum_of_squares(values, std::int64_t{}) } -> std::same_as<double>;
  b.zero(values, std::int64_t{});
  b.ops().multiply(f32);
  b.ops().multiply(mixed);
  { constant.describe() } -> std::convertible_to<std::string>;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_BACKEND_HPP

// ---- causeway/kernels/row_hash.hpp ----
#ifndef CAUSEWAY_KERNELS_ROW_HASH_HPP
#define CAUSEWAY_KERNELS_ROW_HASH_HPP

// A checksum of a long row of values that many threads can make together, a device's too (cuda/hash_bodies.hpp): pieces are
// hashed apart, and their hashes again. It names what replicas hold.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Values of a piece; the last one may be shorter.
inline constexpr std::size_t hash_piece = 16384;

[[nodiscard]] constexpr std::size_t hash_pieces(std::size_t count) noexcept {
  return (count + hash_piece - 1) / hash_piece;
}

/// The hash of a row from those of its pieces.
[[nodiscard]] inline std::uint64_t hash_of_pieces(std::span<const std::uint64_t> pieces) noexcept {
  return hasher{}.add_values(pieces).finish();
}

/// The same for every number of threads. Reads 4 bytes a value.
[[nodiscard]] inline std::uint64_t row_hash(thread_pool& pool, std::span<const float> row) {
  std::vector<std::uint64_t> pieces(hash_pieces(row.size()));
  pool.for_range(static_cast<std::int64_t>(pieces.size()), 1, [&](index_range part) {
    for (auto i = static_cast<std::size_t>(part.begin); i < static_cast<std::size_t>(part.end); ++i) {
      const std::size_t begin = i * hash_piece;
      pieces[i] = hasher{}.add_values(row.subspan(begin, std::min(hash_piece, row.size() - begin))).finish();
    }
  });
  return hash_of_pieces(pieces);
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ROW_HASH_HPP

// ---- causeway/kernels/rows.hpp ----
#ifndef CAUSEWAY_KERNELS_ROWS_HPP
#define CAUSEWAY_KERNELS_ROWS_HPP

// Arithmetic of communication policies on whole rows. A policy asks its context for `rows()`: on a processor that is
// host_rows, beside a model on a device something of the same members that works in the device's memory (cuda/rows.hpp).
// One rounding an operation everywhere, so both give the same bits.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Steps that were taken while a result was on its way, and where they should have begun (axis::compensated).
struct compensation {
  float steps = 1.0F;   ///< τ
  float lambda = 0.5F;  ///< of the correction
};

/// One outer step among peers that do not share parameters (axis::gossip_nesterov).
struct gossip_coefficients {
  float alpha = 0.5F;  ///< momentum
  float beta = 0.7F;   ///< rate of the mean progress
  float gamma = 0.7F;  ///< pull toward the mean parameters
};

namespace detail {

struct blend_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float alpha, const float* x, float beta, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 vy, vx;
      load(vy, y + i, part);
      load(vx, x + i, part);
      store(y + i, alpha * vy + beta * vx, part);
    });
  }
};

struct compensate_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, const float* shared, const float* at_send, std::int64_t count,
                                         compensation c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, target, sent;
      load(value, y + i, part);
      load(target, shared + i, part);
      load(sent, at_send + i, part);
      const f32x16 g = (sent - value) / c.steps;
      store(y + i, target - c.steps * (g + c.lambda * g * g * (target - sent)), part);
    });
  }
};

struct gossip_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* shared, float* velocity, const float* mean, const float* mean_shared,
                                         std::int64_t count, gossip_coefficients c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, v, step, target;
      load(value, shared + i, part);
      load(v, velocity + i, part);
      load(step, mean + i, part);
      load(target, mean_shared + i, part);
      v = c.alpha * v - c.beta * step + c.gamma * (target - value);
      store(velocity + i, v, part);
      store(shared + i, value + v, part);
    });
  }
};

}  // namespace detail

/// y = alpha·y + beta·x. Moves 12 bytes an element. On the calling thread.
inline void blend(float* y, float alpha, const float* x, float beta, std::int64_t count,
                  simd_level level = detect_simd_level()) {
  detail::dispatch<detail::blend_kernel>(level, y, alpha, x, beta, count);
}

/// y = shared − τ·(g + λ·g⊙g⊙(shared − at_send)) with g = (at_send − y)/τ. Moves 16 bytes an element. On the calling
/// thread.
inline void compensate(float* y, const float* shared, const float* at_send, std::int64_t count, const compensation& c,
                       simd_level level = detect_simd_level()) {
  detail::dispatch<detail::compensate_kernel>(level, y, shared, at_send, count, c);
}

/// v = α·v − β·mean + γ·(mean_shared − shared); shared += v. Moves 24 bytes an element. On the calling thread.
inline void gossip_update(float* shared, float* velocity, const float* mean, const float* mean_shared, std::int64_t count,
                          const gossip_coefficients& c, simd_level level = detect_simd_level()) {
  detail::dispatch<detail::gossip_kernel>(level, shared, velocity, mean, mean_shared, count, c);
}

/// What a context's `rows()` can do. Rows of one call are as long as each other; of `gather` and `scatter` the row is as
/// long as the ranges together. Errors are a device's.
template <class R>
concept RowArithmetic = requires(const R& r, std::span<float> y, std::span<const float> x,
                                 std::span<const index_range> ranges) {
  { r.copy(y, x) } -> std::same_as<result<void>>;  // y = x
  { r.zero(y) } -> std::same_as<result<void>>;
  { r.subtract(y, x, x) } -> std::same_as<result<void>>;                          // y = a − b
  { r.scale(y, 1.0F) } -> std::same_as<result<void>>;                             // y = α·y
  { r.add(y, 1.0F, x) } -> std::same_as<result<void>>;                            // y += α·x
  { r.blend(y, 1.0F, x, 1.0F) } -> std::same_as<result<void>>;                    // y = α·y + β·x
  { r.compensate(y, x, x, compensation{}) } -> std::same_as<result<void>>;        // y, shared, at_send
  { r.gossip(y, y, x, x, gossip_coefficients{}) } -> std::same_as<result<void>>;  // shared, velocity, means of both
  { r.gather(ranges, x, y) } -> std::same_as<result<void>>;                       // all, row
  { r.scatter(ranges, x, y) } -> std::same_as<result<void>>;                      // row, all
};

/// On the processor, over the threads of a pool. Nothing fails.
class host_rows {
 public:
  explicit host_rows(thread_pool& pool) noexcept : pool_{&pool} {}

  result<void> copy(std::span<float> y, std::span<const float> x) const {
    std::copy(x.begin(), x.end(), y.begin());
    return {};
  }
  result<void> zero(std::span<float> y) const {
    kernels::zero(*pool_, y.data(), std::ssize(y));
    return {};
  }
  result<void> subtract(std::span<float> y, std::span<const float> a, std::span<const float> b) const {
    kernels::subtract(*pool_, y.data(), a.data(), b.data(), std::ssize(y));
    return {};
  }
  result<void> scale(std::span<float> y, float alpha) const {
    kernels::scale(*pool_, y.data(), alpha, std::ssize(y));
    return {};
  }
  result<void> add(std::span<float> y, float alpha, std::span<const float> x) const {
    kernels::axpy(*pool_, y.data(), alpha, x.data(), std::ssize(y));
    return {};
  }
  result<void> blend(std::span<float> y, float alpha, std::span<const float> x, float beta) const {
    return over(y, [&](std::int64_t i, std::int64_t n) { kernels::blend(y.data() + i, alpha, x.data() + i, beta, n); });
  }
  result<void> compensate(std::span<float> y, std::span<const float> shared, std::span<const float> at_send,
                          const compensation& c) const {
    return over(y, [&](std::int64_t i, std::int64_t n) {
      kernels::compensate(y.data() + i, shared.data() + i, at_send.data() + i, n, c);
    });
  }
  result<void> gossip(std::span<float> shared, std::span<float> velocity, std::span<const float> mean,
                      std::span<const float> mean_shared, const gossip_coefficients& c) const {
    return over(shared, [&](std::int64_t i, std::int64_t n) {
      kernels::gossip_update(shared.data() + i, velocity.data() + i, mean.data() + i, mean_shared.data() + i, n, c);
    });
  }
  result<void> gather(std::span<const index_range> ranges, std::span<const float> all, std::span<float> row) const {
    auto to = row.begin();
    for (const index_range r : ranges) to = std::copy(all.begin() + r.begin, all.begin() + r.end, to);
    return {};
  }
  result<void> scatter(std::span<const index_range> ranges, std::span<const float> row, std::span<float> all) const {
    auto from = row.begin();
    for (const index_range r : ranges) {
      std::copy(from, from + r.size(), all.begin() + r.begin);
      from += r.size();
    }
    return {};
  }

 private:
  template <class F>
  result<void> over(std::span<float> y, F&& f) const {
    detail::for_elements(*pool_, std::ssize(y), [&](index_range part) { f(part.begin, part.size()); });
    return {};
  }

  thread_pool* pool_;
};
static_assert(RowArithmetic<host_rows>);

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_ROWS_HPP

// ---- causeway/nn/model_part.hpp ----
#ifndef CAUSEWAY_NN_MODEL_PART_HPP
#define CAUSEWAY_NN_MODEL_PART_HPP

// Which blocks of a model a peer holds. Whoever holds block 0 holds the embedding too, whoever holds the last block the
// output layer; a token table that is both is then held at both ends. Where clients have the ends and servers the blocks,
// each is a part by itself.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// Blocks [first, last) of a model. The part that starts at 0 has the embedding too, the one that ends at the number of
/// blocks the output layer; every part has at least one block.
struct block_range {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return last - first; }
  friend constexpr bool operator==(const block_range&, const block_range&) = default;
};

/// Ranges of blocks, rising and apart; several where a peer has several chunks of a pipeline.
class model_part {
 public:
  /// All of a model.
  model_part() = default;
  explicit model_part(std::vector<block_range> ranges) : ranges_{std::move(ranges)} {}
  explicit model_part(block_range range) : ranges_{range} {}

  /// Embedding and output layer, and no block.
  [[nodiscard]] static model_part ends() {
    model_part p;
    p.has_blocks_ = false;
    return p;
  }
  /// Blocks, and nothing of what stands before the first and behind the last.
  [[nodiscard]] static model_part blocks_alone(block_range range) {
    model_part p{range};
    p.has_ends_ = false;
    return p;
  }

  /// The ranges in a model of `layers` blocks.
  [[nodiscard]] std::vector<block_range> ranges(std::int64_t layers) const {
    if (!has_blocks_) return {};
    return ranges_.empty() ? std::vector<block_range>{{0, layers}} : ranges_;
  }
  [[nodiscard]] bool is_whole(std::int64_t layers) const {
    if (!has_blocks_ || !has_ends_) return false;
    return ranges_.empty() || (ranges_.size() == 1 && ranges_[0] == block_range{0, layers});
  }
  [[nodiscard]] bool holds(std::int64_t block) const noexcept { return holds(block_range{block, block + 1}); }
  [[nodiscard]] bool holds(const block_range& wanted) const noexcept {
    if (!has_blocks_) return false;
    return ranges_.empty() || std::any_of(ranges_.begin(), ranges_.end(), [&wanted](const block_range& r) {
             return r.first <= wanted.first && wanted.last <= r.last;
           });
  }

  /// Whether parameters of `block` are here, in a model of `layers`: before the first (-1) and behind the last (`layers`)
  /// as well.
  [[nodiscard]] bool holds_parameters(std::int64_t block, std::int64_t layers) const noexcept {
    const bool end = block < 0 || block >= layers;
    if (!has_blocks_) return end;
    if (!has_ends_) return !end && holds(block);
    return holds(std::clamp(block, std::int64_t{0}, layers - 1));
  }

  /// Ranges must rise, not be empty, not touch each other, and lie within the model.
  [[nodiscard]] result<void> check(std::int64_t layers) const {
    std::int64_t from = 0;
    for (const block_range& r : ranges_) {
      if (r.first < from || r.last <= r.first || r.last > layers) {
        return fail(errc::invalid_argument, "model part",
                    "blocks " + text(r) + " of a model with " + std::to_string(layers) +
                        "; ranges must rise, be apart and have at least one block");
      }
      from = r.last + 1;
    }
    return {};
  }

  [[nodiscard]] static std::string text(const block_range& r) {
    return "[" + std::to_string(r.first) + ", " + std::to_string(r.last) + ")";
  }

 private:
  std::vector<block_range> ranges_;  // none: all blocks
  bool has_blocks_ = true;
  bool has_ends_ = true;
};

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_MODEL_PART_HPP

// ---- causeway/optim/clip.hpp ----
#ifndef CAUSEWAY_OPTIM_CLIP_HPP
#define CAUSEWAY_OPTIM_CLIP_HPP

// Clipping by the global norm (Pascanu et al. 2013). The norm is a sum in f64 in a fixed order that depends on neither
// threads nor processor; the factor is folded into the optimizer's gradient_scale, so gradients are not written again.

namespace causeway::inline CAUSEWAY_ABI::optim {

/// The Euclidean norm of all gradients. Reads 4 bytes an element. NaN or infinite if a gradient is, or if the norm itself
/// is beyond f32.
inline float global_norm(thread_pool& pool, std::span<const float> gradients) {
  const auto count = static_cast<std::int64_t>(gradients.size());
  return static_cast<float>(std::sqrt(kernels::sum_of_squares(pool, gradients.data(), count)));
}

/// The factor that brings `norm` down to `max_norm`: at most 1, and 1 where clipping is off (max_norm <= 0).
constexpr float clip_scale(float norm, float max_norm) noexcept {
  return max_norm > 0.0F && norm > max_norm ? max_norm / norm : 1.0F;
}

/// Fails with errc::non_finite when `norm` is NaN or infinite; such gradients must not reach an optimizer.
inline result<void> check_norm(float norm, std::string where) {
  if (std::isfinite(norm)) return {};
  return fail(errc::non_finite, std::move(where),
              "the gradient norm is not finite; skip the step, or lower the learning rate or lengthen its warm-up");
}

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_CLIP_HPP

// ---- causeway/optim/optimizer.hpp ----
#ifndef CAUSEWAY_OPTIM_OPTIMIZER_HPP
#define CAUSEWAY_OPTIM_OPTIMIZER_HPP

// What an optimizer is, and what all of them need: state beside the flat parameters, and a walk over the parameters that
// knows which are decayed. An optimizer is a regular value; it sees the flat buffers and the segments, never the model.

namespace causeway::inline CAUSEWAY_ABI::optim {

/// What changes from step to step.
struct step_options {
  float learning_rate = 1e-3F;
  float gradient_scale = 1.0F;  ///< multiplies every gradient: one over the tokens, times the clipping factor
  /// Where not empty, an optimizer with `reports_updates` adds what it subtracts from each value, before rounding it to the
  /// size of the value.
  std::span<float> update_sum{};
};

/// `reset(length)` starts over for flat buffers of that length; `step` moves the values and leaves the gradients alone;
/// `serialize` visits all that a checkpoint must keep.
template <class O>
concept Optimizer = std::movable<O> && requires(O& o, thread_pool& pool, parameter_view view, step_options options) {
  { O::name } -> std::convertible_to<std::string_view>;
  { o.reset(std::int64_t{}) } -> std::same_as<void>;
  { o.step(pool, view, options) } -> std::same_as<void>;
};

/// Whether `O` fills step_options::update_sum.
template <class O>
concept ReportsUpdates = Optimizer<O> && requires {
  requires O::reports_updates;
};

/// Flat f32 state, zeroed, aligned as the parameters are.
class state_buffer {
 public:
  state_buffer() = default;
  explicit state_buffer(std::int64_t length, const memory_source& source = {})
      : source_{source}, values_{static_cast<std::size_t>(length), source} {}

  [[nodiscard]] float* data() noexcept { return values_.data(); }
  [[nodiscard]] const float* data() const noexcept { return values_.data(); }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(values_.size()); }
  [[nodiscard]] std::span<const float> span() const noexcept { return values_.span(); }

  /// Through pieces of 4 MiB, so that a checkpoint needs no second copy of the state.
  template <class Archive>
  void serialize(Archive& ar) {
    if constexpr (requires { ar.view(std::span<float>{}); }) {
      return ar.view(values_.span());  // an archive that refers to memory instead of copying it
    }
    std::uint64_t length = values_.size();
    ar(length);
    if (length != values_.size()) values_ = aligned_buffer<float>{static_cast<std::size_t>(length), source_};
    constexpr std::size_t most = std::size_t{1} << 20U;
    std::vector<float> piece;
    for (std::size_t begin = 0; begin < values_.size(); begin += most) {
      const std::size_t count = std::min(most, values_.size() - begin);
      piece.assign(values_.data() + begin, values_.data() + begin + count);
      ar(piece);
      std::copy_n(piece.data(), std::min(count, piece.size()), values_.data() + begin);
    }
  }

 private:
  memory_source source_;
  aligned_buffer<float> values_;
};

namespace detail {

/// Whether weight decay applies: to matrices and tables, not to biases and gains.
constexpr bool decays(parameter_kind kind) noexcept { return kind != parameter_kind::vector; }

/// Calls `f(begin, count, decays)` on the calling thread for the pieces of [part.begin, part.end) of the flat buffers,
/// cut where decay starts or ends. A segment's padding belongs to it.
template <class F>
void for_pieces(std::span<const parameter_segment> segments, index_range part, F&& f) {
  for (std::size_t s = 0; s < segments.size();) {
    const bool decay = decays(segments[s].kind);
    const std::int64_t begin = s == 0 ? 0 : segments[s].offset;
    while (s < segments.size() && decays(segments[s].kind) == decay) ++s;
    const std::int64_t end = s < segments.size() ? segments[s].offset : part.end;
    const std::int64_t first = std::max(begin, part.begin);
    const std::int64_t last = std::min(end, part.end);
    if (first < last) f(first, last - first, decay);
  }
}

/// The same over all threads; each gets one contiguous part of the flat buffers. Without segments all is decayed.
template <class F>
void for_all_pieces(thread_pool& pool, const parameter_view& view, F&& f) {
  const auto length = static_cast<std::int64_t>(view.values.size());
  const auto walk = [&](index_range part) {
    if (view.segments.empty()) {
      f(part.begin, part.size(), true);
    } else {
      for_pieces(view.segments, part, f);
    }
  };
  constexpr std::int64_t smallest_share = 16384;  // fewer elements are not worth waking a second thread for
  if (length <= smallest_share) {
    if (length > 0) walk({0, length});
  } else {
    pool.for_range(length, 64, walk);
  }
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_OPTIMIZER_HPP

// ---- causeway/optim/divisible.hpp ----
#ifndef CAUSEWAY_OPTIM_DIVISIBLE_HPP
#define CAUSEWAY_OPTIM_DIVISIBLE_HPP

// Optimizer state that can be taken apart by parameters, for peers whose part of the model changes during a run.

namespace causeway::inline CAUSEWAY_ABI::optim {

/// `moments()`: all state that belongs to single parameters, in the layout of the parameters. `resume(length, steps)`: as
/// after that many steps, with moments of zero.
template <class O>
concept Divisible = Optimizer<O> && requires(O& o) {
  { o.moments().size() } -> std::convertible_to<std::size_t>;
  { o.moments()[0] } -> std::convertible_to<std::span<float>>;
  { o.resume(std::int64_t{}, std::uint64_t{}) } -> std::same_as<void>;
};

/// State for `to`, flat buffers of `length` values: what `from` had of it stays, the rest is zero. Both are in memory at
/// once.
template <Divisible O>
void divide(O& inner, std::span<const parameter_segment> from, std::span<const parameter_segment> to, std::int64_t length,
            std::uint64_t steps) {
  std::vector<std::vector<float>> before;
  for (const std::span<float> m : inner.moments()) before.emplace_back(m.begin(), m.end());
  inner.resume(length, steps);
  for_common_pieces(from, to, [&](const parameter_segment& old, const parameter_segment& now) {
    for (std::size_t m = 0; m < before.size(); ++m) {
      std::copy_n(before[m].begin() + old.offset, old.size(), inner.moments()[m].begin() + now.offset);
    }
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_DIVISIBLE_HPP

// ---- causeway/train/elastic_group.hpp ----
#ifndef CAUSEWAY_TRAIN_ELASTIC_GROUP_HPP
#define CAUSEWAY_TRAIN_ELASTIC_GROUP_HPP

// What the context asks of a membership that changes during a run. train/member.hpp implements it over net::fabric; a run
// with a fixed set of peers has none.

namespace causeway::inline CAUSEWAY_ABI {

/// The memory that all peers hold alike after a committed round, in pieces whose order and sizes are equal on all of them.
/// The first piece holds the shared parameters.
struct shared_state {
  std::vector<std::span<std::byte>> parts;
  /// Called on the trainer's thread when other contents were put there. `previous`: see ElasticPolicy::adopt.
  std::function<void(std::span<const float> previous)> adopted;
  /// Called on the trainer's thread: does to the parts what the next round did, whose mean this is. None: this policy
  /// cannot.
  std::function<result<void>(std::span<const float> mean)> replay{};
};

/// The exchange that a peer has been let into.
struct round_entry {
  net::any_transport* transport = nullptr;  ///< to the peers that take part, numbered without gaps
  std::uint64_t round = 0;                  ///< the one that is being made
  std::uint64_t parent = 0;                 ///< names the committed state that contributions are based on
  time_point deadline = no_deadline;        ///< for the whole exchange, from how long earlier ones took
  double share = 0;                         ///< this peer's samples / everybody's
  bool empty = false;                       ///< nobody has anything to contribute: the round only admits members
  std::uint32_t attempt = 0;                ///< another one for every attempt at a round
};

/// Thread safety: all calls from the trainer's thread.
class elastic_group {
 public:
  virtual ~elastic_group() = default;

  /// A number that stays the same for this peer across restarts.
  [[nodiscard]] virtual std::uint64_t identity() const = 0;

  /// Founds, joins or rejoins the run; returns when `state`, which must outlive the group's use, holds a committed round.
  virtual result<void> open(shared_state state, thread_pool& pool) = 0;

  /// Blocks until the next exchange may begin. `samples`: what this peer has trained on since its last committed
  /// contribution. Entering again before the exchange failed gives the same entry.
  virtual result<round_entry> enter(std::uint64_t samples) = 0;

  /// Whether others have begun an exchange that this peer said it was ready for, and wait for it to enter.
  [[nodiscard]] virtual bool exchange_waits() const { return false; }

  /// This peer goes. It takes part until the others do without it; then `enter` or `settle` ends with errc::cancelled.
  virtual void leave() {}

  /// The exchange went through; the shared state is about to change. errc::cancelled: the attempt is over, nothing may
  /// come of it.
  virtual result<void> exchanged() = 0;

  /// After it: the mean of all that was exchanged, the same bits on all peers. For those who could not take part.
  virtual void exchanged_mean(std::span<const float>) {}

  /// Judges an attempted step. `candidate`: the shared state in memory is that of the round entered, complete. commit: the
  /// shared state is that of a committed round. retry: the exchange has to be entered again. An error: this peer is out.
  virtual result<verdict> settle(const result<void>& outcome, bool candidate) = 0;

  /// Whether `sit_out` may be called.
  [[nodiscard]] virtual bool can_sit_out() const { return false; }

  /// What this peer computed since its last commit cannot be used, and `why` says what is wrong with it: gives it up, gets
  /// the shared state back as it was committed, and calls shared_state::adopted. For the rounds that follow, more of them
  /// after each time in a row, `draw` gives nothing: this peer takes part with no contribution. Ends with verdict::commit,
  /// or with an error where it happened too often.
  virtual result<verdict> sit_out(const error& why) { return why; }

  /// The newest committed round that this peer holds, and the name of its state.
  [[nodiscard]] virtual std::uint64_t round() const = 0;
  [[nodiscard]] virtual std::uint64_t parent() const = 0;
  [[nodiscard]] virtual std::uint64_t state_hash() const = 0;

  /// Samples that the last settle put into a commit, out of those given to `enter`.
  [[nodiscard]] virtual std::uint64_t contributed() const = 0;

  /// Up to `count` sample numbers that the ledger gave this peer, after the first `skipped` of them.
  [[nodiscard]] virtual std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) = 0;
  /// Whether every sample of the run's budget is in a commit.
  [[nodiscard]] virtual bool budget_used() const = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_ELASTIC_GROUP_HPP

// ---- causeway/optim/schedule.hpp ----
#ifndef CAUSEWAY_OPTIM_SCHEDULE_HPP
#define CAUSEWAY_OPTIM_SCHEDULE_HPP

// Learning rates as pure functions of the step, so that a run continued from a checkpoint needs no schedule state.

namespace causeway::inline CAUSEWAY_ABI::optim {

/// `at(step)` is the rate of step 0, 1, 2, ...
template <class S>
concept Schedule = requires(const S& s, std::uint64_t step) {
  { s.at(step) } -> std::same_as<float>;
};

/// The same rate always.
struct constant {
  float rate = 1e-3F;

  [[nodiscard]] constexpr float at(std::uint64_t) const noexcept { return rate; }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(rate);
  }
};

/// Linear from peak/warmup_steps at step 0 to `peak` at step warmup_steps - 1, then half a cosine down to
/// `final_fraction`·peak at step total_steps, and constant after that.
struct warmup_cosine {
  float peak = 1e-3F;
  std::uint64_t warmup_steps = 100;
  std::uint64_t total_steps = 1000;
  float final_fraction = 0.1F;

  [[nodiscard]] float at(std::uint64_t step) const noexcept {
    if (step < warmup_steps) {
      return static_cast<float>(static_cast<double>(peak) * static_cast<double>(step + 1) /
                                static_cast<double>(warmup_steps));
    }
    const std::uint64_t span = total_steps > warmup_steps ? total_steps - warmup_steps : 0;
    const std::uint64_t done = std::min(step - warmup_steps, span);
    const double progress = span == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(span);
    const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    const double floor = static_cast<double>(final_fraction);
    return static_cast<float>(static_cast<double>(peak) * (floor + (1.0 - floor) * cosine));
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(peak, warmup_steps, total_steps, final_fraction);
  }
};

static_assert(Schedule<constant> && Schedule<warmup_cosine>);

/// Any schedule, held by value.
class schedule {
 public:
  template <class S>
    requires(!std::same_as<S, schedule>)
  &&Schedule<S> schedule(S s) : at_{[s](std::uint64_t step) { return s.at(step); }} {}  // NOLINT: converting on purpose

  [[nodiscard]] float at(std::uint64_t step) const { return at_(step); }

 private:
  std::function<float(std::uint64_t)> at_;
};
static_assert(Schedule<schedule>);

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_SCHEDULE_HPP

// ---- causeway/train/environment.hpp ----
#ifndef CAUSEWAY_TRAIN_ENVIRONMENT_HPP
#define CAUSEWAY_TRAIN_ENVIRONMENT_HPP

// What a training is given besides its model and its policies: where it runs, and what is the same on all peers.

namespace causeway::inline CAUSEWAY_ABI {

/// Where a peer runs: its network, its clock, and where its messages go. `exchange` says how sums travel (deadline, chunks,
/// algorithm) and must be equal on all peers: collective::tuned_for_streams makes it for links of several streams. Its pool
/// and workspace are the context's to set.
struct environment {
  net::any_transport transport{};
  any_clock clock{};
  log_sink log{};
  collective::collective_options exchange{};
  /// Peers that come and go, for fault::quorum; `transport` is not used then. train/member.hpp makes one.
  std::shared_ptr<elastic_group> group{};
};

struct trainer_options {
  std::uint64_t seed = 1;  ///< of everything random in the run; equal on all peers
  optim::schedule learning_rate = optim::constant{3e-4F};
  float clip_norm = 1.0F;        ///< of the whole gradient; 0 = no clipping
  std::uint32_t hash_every = 1;  ///< rounds between full hashes of the committed parameters; 0 = never
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_ENVIRONMENT_HPP

// ---- causeway/train/model.hpp ----
#ifndef CAUSEWAY_TRAIN_MODEL_HPP
#define CAUSEWAY_TRAIN_MODEL_HPP

// What a trainer needs of a model. nn::gpt and nn::llama have it; so may yours.

namespace causeway::inline CAUSEWAY_ABI {

/// - `parameters()`: the store that owns values and gradients.
/// - `forward_backward(inputs, targets, sequences, scale, dropout_stream)`: adds scale × the gradient of the summed token
///   losses to the store's gradients; gives the sum. Equal inputs give equal bits for a given number of threads.
/// - `evaluate(inputs, targets, sequences)`: the summed token losses, without gradients and dropout.
/// - `config_hash()`: equal on models that can share a run.
/// - `backend().pool()`: the threads of the host. A backend that is a kernels::Backend also clears and measures gradients,
///   wherever they lie.
template <class M>
concept Model = std::movable<M> &&
    requires(M& m, std::span<const std::int32_t> tokens, std::int64_t sequences, float scale, std::uint64_t stream) {
  { m.parameters() } -> std::same_as<parameter_store&>;
  { m.forward_backward(tokens, tokens, sequences, scale, stream) } -> std::same_as<result<double>>;
  { m.evaluate(tokens, tokens, sequences) } -> std::same_as<result<double>>;
  { m.config_hash() } -> std::convertible_to<std::uint64_t>;
  { m.backend().pool() } -> std::same_as<thread_pool&>;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_MODEL_HPP

// ---- causeway/train/context.hpp ----
#ifndef CAUSEWAY_TRAIN_CONTEXT_HPP
#define CAUSEWAY_TRAIN_CONTEXT_HPP

// What policies see of a run: parameters and gradients, peers, time, randomness, and the exchanges built from them. It is
// the only door: a policy that needs the network, a clock or a random number takes it from here, so that a simulated run is
// the same run. All members are for the trainer's thread.

namespace causeway::inline CAUSEWAY_ABI {

template <Model M, optim::Optimizer Inner>
class training_context {
  using backend_type = std::remove_cvref_t<decltype(std::declval<M&>().backend())>;

 public:
  training_context(M model, Inner inner, environment env, trainer_options options, bool keeps_inputs)
      : model_{std::move(model)},
        inner_{std::move(inner)},
        env_{std::move(env)},
        options_{std::move(options)},
        world_{std::make_unique<net::any_transport>(std::move(env_.transport))},
        keeps_inputs_{keeps_inputs},
        random_{options_.seed, mix(streams::own, name_of_stream())},
        shared_random_{options_.seed, mix(streams::shared)} {
    inner_.reset(model_.parameters().length());
  }

  // ---- who and when -------------------------------------------------------------------------------------------------

  /// This peer, 0 to peers()-1. Where peers come and go: its place in the exchange entered last.
  [[nodiscard]] net::peer_index self() const { return transport().self(); }
  [[nodiscard]] std::uint32_t peers() const { return transport().size(); }
  /// Whether peers may come and go during the run.
  [[nodiscard]] bool elastic() const noexcept { return env_.group != nullptr; }
  /// Inner steps committed by this peer.
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }
  /// Outer rounds committed by this peer.
  [[nodiscard]] std::uint64_t round() const noexcept { return elastic() ? env_.group->round() : round_; }
  /// Whether a failed exchange must leave its input as it was, because the fault policy may ask for it again.
  [[nodiscard]] bool keeps_inputs() const noexcept { return keeps_inputs_; }

  // ---- what is trained ----------------------------------------------------------------------------------------------

  [[nodiscard]] M& model() noexcept { return model_; }
  [[nodiscard]] Inner& inner() noexcept { return inner_; }
  /// All parameters, flat, padding included (always zero).
  [[nodiscard]] std::span<float> parameters() { return model_.parameters().values(); }
  /// Their gradients in the same layout. Between inner steps the buffer is free for a policy's use.
  [[nodiscard]] std::span<float> gradients() { return model_.parameters().gradients(); }
  [[nodiscard]] parameter_view view() { return model_.parameters().view(); }
  /// Call after writing parameters.
  void parameters_changed() { model_.parameters().touch(); }
  /// The inner optimizer forgets what it knows, as at the start of the run: it may be what spoilt the parameters.
  void reset_inner() { inner_.reset(model_.parameters().length()); }
  /// From now on every inner step adds what it subtracts from the parameters to `sum` (same layout), which must outlive the
  /// training. errc::unsupported if the inner optimizer does not report its updates.
  result<void> track_updates(std::span<float> sum) {
    if constexpr (optim::ReportsUpdates<Inner>) {
      updates_ = sum;
      return {};
    } else {
      return fail(errc::unsupported, std::string{Inner::name},
                  "this inner optimizer does not report its updates; use pseudo_gradient::difference, or optim::sgd");
    }
  }

  /// From now on this peer holds another part of the model: see nn::language_model::hold. The inner optimizer's state goes
  /// with the parameters, zero where they are new; it counts `steps`.
  result<void> hold(nn::model_part part, std::uint64_t steps) requires optim::Divisible<Inner> {
    const auto segments = model_.parameters().segments();
    const std::vector<parameter_segment> before{segments.begin(), segments.end()};
    CAUSEWAY_TRY(model_.hold(std::move(part)));
    auto& store = model_.parameters();
    optim::divide(inner_, before, store.segments(), store.length(), steps);
    parameters_changed();
    return {};
  }

  /// Adds `scale` times the gradient of the summed token losses of `b`; gives that sum. Dropout masks are a function of
  /// (seed, peer, step, micro-batch).
  result<double> forward_backward(const batch& b, float scale) {
    return model_.forward_backward(b.inputs, b.targets, b.sequences, scale, dropout_stream(micro_batch_++));
  }

  /// Names the dropout masks of a micro-batch of this step: a function of (seed, peer, step, micro-batch), where all stages
  /// of a pipeline are one peer.
  [[nodiscard]] std::uint64_t dropout_stream(std::uint64_t micro_batch) const {
    return mix(step_, elastic() ? env_.group->identity() : std::uint64_t{self()}, micro_batch);
  }

  /// The 2-norm of the gradient that this peer holds.
  [[nodiscard]] float own_norm() { return norm_of(gradients()); }
  /// Of a part of `gradients()`.
  [[nodiscard]] float norm_of(std::span<const float> part) {
    if constexpr (kernels::Backend<backend_type>) {
      const auto count = static_cast<std::int64_t>(part.size());
      return static_cast<float>(std::sqrt(model_.backend().sum_of_squares(part.data(), count)));
    } else {
      return optim::global_norm(pool(), part);
    }
  }

  // ---- rows: where the model computes, if all of them lie in its memory ----------------------------------------------

  /// Arithmetic on whole rows: see kernels::RowArithmetic.
  [[nodiscard]] auto rows() {
    if constexpr (requires { model_.backend().rows(); }) {
      return model_.backend().rows();
    } else {
      return kernels::host_rows{pool()};
    }
  }
  /// Where the parameters lie, for rows that are to lie there too.
  [[nodiscard]] memory_source memory() {
    if constexpr (kernels::Backend<backend_type>) return model_.backend().source();
    return {};
  }
  /// y = a − b, value by value.
  result<void> subtract(std::span<float> y, std::span<const float> a, std::span<const float> b) {
    return rows().subtract(y, a, b);
  }
  /// `to` and `from` are as long.
  result<void> copy(std::span<float> to, std::span<const float> from) { return rows().copy(to, from); }
  /// The outcome of an exchange of rows; or what a device failed with meanwhile, which says more than that its bytes were
  /// refused.
  result<void> or_device_error(result<void> outcome) {
    if constexpr (kernels::Backend<backend_type>) {
      if (auto device = model_.backend().finish(); !device) return device;
    }
    return outcome;
  }

  // ---- doors --------------------------------------------------------------------------------------------------------

  [[nodiscard]] thread_pool& pool() { return model_.backend().pool(); }
  [[nodiscard]] any_clock& clock() noexcept { return env_.clock; }
  /// To the peers that hold the same parameters: all of the run, or, where a model is cut into stages, this stage's.
  [[nodiscard]] net::any_transport& transport() noexcept {
    return const_cast<net::any_transport&>(std::as_const(*this).transport());
  }
  [[nodiscard]] const net::any_transport& transport() const noexcept {
    if (entry_.transport) return *entry_.transport;
    return group_ ? *group_ : *world_;
  }
  /// To all peers of the run.
  [[nodiscard]] net::any_transport& world() noexcept { return *world_; }
  /// From now on transport(), self() and peers() are those of the group of `members`, peers of world() with this one among
  /// them: the ones that hold the same stage of a model, in the order of their pipelines. Call it in `start`.
  void form_group(std::vector<net::peer_index> members) {
    group_.emplace(collective::group_view{*world_, std::move(members)});
  }
  [[nodiscard]] const log_sink& log() const noexcept { return env_.log; }
  /// Differs from peer to peer.
  [[nodiscard]] rng& random() noexcept { return random_; }
  /// The same sequence on all peers, as long as all draw equally often.
  [[nodiscard]] rng& shared_random() noexcept { return shared_random_; }

  // ---- exchanges: all peers must take part, in the same round ----------------------------------------------------------

  /// data ← mean over all peers, through `codec`, in place; bit-identical everywhere. Nothing is sent by a peer alone.
  /// Where peers come and go, they count by the samples that they trained on: Σ n_i·x_i / Σ n_i.
  /// Bytes: 2(n−1)/n · the encoded size. On an error the data is garbage unless keeps_inputs().
  template <class Codec>
  result<void> mean(const Codec& codec, std::span<float> data) {
    if (can_sit_out()) CAUSEWAY_TRY(keep_finite(data));
    CAUSEWAY_TRY(enter());
    if (peers() == 1) return exchanged(data);
    if (keeps_inputs_ && !can_sit_out()) kept_.assign(data.begin(), data.end());
    if (elastic()) CAUSEWAY_TRY(weigh(data));
    auto outcome = or_device_error(collective::exchange_mean(transport(), exchange_id(collective::channels::updates), codec,
                                                             data, own_exchange_options()));
    if (outcome) outcome = exchanged(data);
    if (outcome || !keeps_inputs_) return outcome;
    std::copy(kept_.begin(), kept_.end(), data.begin());
    if (!is_refused(outcome.error())) return outcome;
    if (!collective::survives(codec, pool(), kept_)) return unusable("it is not finite once it is encoded");
    outcome.error().culprit = error::nobody;  // who says so is wrong, or spoilt it on its way
    return outcome;
  }

  /// Both peers: data ← (theirs + ours) / 2. `other` must call it with us in the same round. Bytes: 4 per value each way.
  result<void> average_with(net::peer_index other, std::span<float> data) {
    received_.resize(data.size());
    return collective::average_pair(transport(), other, {.channel = collective::channels::parameters, .step = round_}, data,
                                    received_, env_.exchange.deadline);
  }

  /// This peer's partner when all peers are paired at random; none for the one left over. A function of the seed and the
  /// round: the same pairs on all peers, and again when asked again.
  [[nodiscard]] std::optional<net::peer_index> random_partner() const {
    return collective::partner_of(self(), peers(), rng{options_.seed, mix(streams::pairs, round_)});
  }

  /// The parameters as they stand are what all peers hold now: the next exchange will be based on them. Where peers come
  /// and go, they are a candidate until the fault policy has settled the step.
  void commit_round() { commit_round(std::span<const float>{parameters()}); }

  /// The same where it is other values that all peers hold alike; none if the peers do not hold the same.
  void commit_round(std::span<const float> shared) {
    if (elastic()) {
      candidate_ = true;
      return;
    }
    ++round_;
    const bool full = options_.hash_every != 0 && round_ % options_.hash_every == 0 && !shared.empty();
    hash_ = full ? hash_of(shared) : 0;
    parent_ = mix(parent_, hash_, round_);
  }

  /// The gradients of this step are kept for a later one: the inner optimizer does not move, once.
  void skip_inner_step() noexcept { skip_ = true; }

  /// An exchange that a policy runs itself, through collective/, is framed by these two: the first lets this peer in and
  /// gives the weight that its row has, the second says that the result is there. With fixed peers the weight is 1; where
  /// they come and go, transport(), self() and peers() are those of the exchange from then on, and the weights those of the
  /// samples: a peer that has just joined has 0.
  result<float> enter_exchange() {
    CAUSEWAY_TRY(enter());
    return elastic() ? static_cast<float>(entry_.share * peers()) : 1.0F;
  }
  result<void> left_exchange() { return exchanged(); }

  /// Before `enter_exchange`: where peers come and go, a row that is not finite is not sent. This peer then sits the round
  /// out, which `settle` sees to. One pass over the row.
  result<void> check_own(std::span<float> row) {
    if (!can_sit_out()) return {};
    bool there = false;
    if constexpr (requires { rows().there(row); }) there = rows().there(row);
    if (there ? std::isfinite(norm_of(row)) : collective::finite_values(row)) return {};
    return unusable("it holds NaN or infinity");
  }
  /// What came of such an exchange. Where everybody saw that this peer's own row cannot be used, it sits the round out.
  result<void> or_unusable(result<void> outcome) {
    if (outcome || !is_refused(outcome.error())) return outcome;
    return unusable("it is not finite once it is encoded");
  }

  /// Of such an exchange: how it may cut and how long it may take. No workspace:
  /// several of them may be under way.
  [[nodiscard]] collective::collective_options exchange_options() {
    collective::collective_options options = env_.exchange;
    options.pool = &pool();
    if (elastic()) options.deadline = entry_.deadline;
    options.checks_results = elastic();
    return options;
  }

  /// What names the messages of the exchange entered last.
  [[nodiscard]] net::message_id exchange_id(std::uint32_t channel) const {
    if (elastic()) return {.channel = channel, .step = entry_.round, .parent = entry_.parent};
    return {.channel = channel, .epoch = 0, .step = round_, .parent = parent_};
  }

  /// The learning rate of the inner step that comes next.
  [[nodiscard]] float next_learning_rate() const {
    return options_.learning_rate.at(scheduled_by_rounds_ ? round_ : step_);
  }

  /// From now on the schedule of the learning rate counts rounds: for policies in which a step of the inner optimizer is a
  /// round, and peers do not have the same number of steps behind them. Call it in `start`.
  void schedule_by_rounds() noexcept { scheduled_by_rounds_ = true; }

  /// Samples that this peer has trained on since it was built. Where peers come and go: since its last contribution.
  [[nodiscard]] std::uint64_t samples() const noexcept { return uncommitted_; }

  /// Sets the number of inner steps, on which the learning rate depends: for a peer that took over the others' state. The
  /// step under way does not count on top of it, unless it is `going_on`, with what it computed kept.
  void resume_at(std::uint64_t step, bool going_on = false) noexcept {
    step_ = step;
    resumed_ = !going_on;
  }

  /// What became of an attempted step among peers that come and go. Blocks until the others have judged it too.
  result<verdict> settle(const result<void>& outcome) {
    if (!elastic()) {
      return fail(errc::invalid_argument, "fault policy",
                  "it needs a membership, but the environment has none; set environment::group, or use fault::fail_stop");
    }
    if (outcome && !candidate_) return verdict::commit;
    if (std::exchange(unusable_, false) && !outcome) return sit_out(outcome.error());
    CAUSEWAY_ASSIGN(const verdict judged, env_.group->settle(outcome, candidate_));
    entered_ = candidate_ = false;
    if (judged == verdict::commit) uncommitted_ -= std::min(uncommitted_, env_.group->contributed());
    return judged;
  }

  // ---- for the trainer -------------------------------------------------------------------------------------------------

  /// Founds or joins the run with the state that `comm` and the context share.
  template <class Comm>
  result<void> open_membership(Comm& comm) {
    if (!elastic()) return {};
    membership::image_collector parts;
    if constexpr (Comm::traits.needs_global_step) {
      shares_inner_ = true;
      parts.view(parameters());
      parts(inner_);
    }
    comm.shared(parts);
    parts(shared_random_);
    shared_state state{parts.parts(), [this, &comm](std::span<const float> previous) { adopted(comm, previous); }};
    if constexpr (requires { comm.replay(*this); }) {
      state.replay = [this, &comm](std::span<const float> mean) { return replay(comm, mean); };
    }
    return env_.group->open(std::move(state), pool());
  }

  /// One exchange without a step before it: `exchange` is the policy's part, left out when nobody has anything to give.
  template <class Exchange>
  result<void> attend(Exchange&& exchange) {
    CAUSEWAY_TRY(enter());
    if (!entry_.empty) return exchange();
    commit_round();
    return {};
  }

  /// Samples were trained on.
  void count_samples(std::uint64_t samples) noexcept { uncommitted_ += samples; }

  /// Numbers of this peer's next samples: see basic_trainer::draw.
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t count) {
    if (elastic()) return env_.group->draw(uncommitted_, count);
    std::vector<std::uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), (step_ * peers() + self()) * count);
    return numbers;
  }
  [[nodiscard]] bool budget_used() const { return elastic() && env_.group->budget_used(); }

  /// Checks that all peers start from the same parameters. One hash from and to everybody.
  result<void> agree_on_start() {
    parent_ = hash_of(parameters());
    return verify_parent(
        "starts from other parameters; all peers need the same seed, the same options and checkpoints of "
        "the same round");
  }

  /// Clears gradients before a step.
  void begin_compute() {
    micro_batch_ = 0;
    resumed_ = false;
    const auto g = gradients();
    const auto count = static_cast<std::int64_t>(g.size());
    if constexpr (kernels::Backend<backend_type>) {
      model_.backend().zero(g.data(), count);
    } else {
      kernels::zero(pool(), g.data(), count);
    }
  }

  /// Clips, and lets the inner optimizer move the parameters. errc::non_finite leaves them as they were.
  result<void> inner_step() {
    return inner_step([this] { return result<float>{own_norm()}; });
  }
  /// The same where the gradient is part of a larger one: `norm()` gives the norm of that, and may fail.
  template <class Norm>
  result<void> inner_step(Norm&& norm) {
    if (skip_) {
      skip_ = false;
      return {};
    }
    CAUSEWAY_ASSIGN(gradient_norm_, norm());
    if (auto checked = optim::check_norm(gradient_norm_, "step " + std::to_string(step_ + 1)); !checked) {
      CAUSEWAY_TRY(or_device_error({}));
      return can_sit_out() ? without_step(checked.error()) : checked;
    }
    skipped_ = 0;
    rate_ = next_learning_rate();
    inner_.step(pool(), view(),
                {.learning_rate = rate_,
                 .gradient_scale = optim::clip_scale(gradient_norm_, options_.clip_norm),
                 .update_sum = updates_});
    parameters_changed();
    return {};
  }

  void commit_step() noexcept {
    if (!resumed_) ++step_;
    resumed_ = false;
  }
  [[nodiscard]] float gradient_norm() const noexcept { return gradient_norm_; }
  [[nodiscard]] float learning_rate() const noexcept { return rate_; }
  [[nodiscard]] std::uint64_t state_hash() const noexcept { return elastic() ? env_.group->state_hash() : hash_; }
  /// Names the committed state that exchanges are based on.
  [[nodiscard]] std::uint64_t parent() const noexcept { return elastic() ? env_.group->parent() : parent_; }
  [[nodiscard]] const trainer_options& options() const noexcept { return options_; }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(step_, round_, parent_, random_, shared_random_);
  }

 private:
  struct streams {
    static constexpr std::uint64_t own = 0x6F776E;
    static constexpr std::uint64_t shared = 0x736861726564;
    static constexpr std::uint64_t pairs = 0x7061697273;
  };

  // Lets this peer into the exchange of the round, once per attempt.
  result<void> enter() {
    if (!elastic() || entered_) return {};
    CAUSEWAY_ASSIGN(entry_, env_.group->enter(uncommitted_));
    entered_ = true;
    return {};
  }

  result<void> exchanged(std::span<const float> mean = {}) {
    if (!elastic()) return {};
    CAUSEWAY_TRY(env_.group->exchanged());
    if (!mean.empty()) env_.group->exchanged_mean(mean);
    return {};
  }

  // ---- contributions that are not finite, where peers come and go -----------------------------------------------------

  [[nodiscard]] bool can_sit_out() const { return elastic() && env_.group->can_sit_out(); }

  /// This peer gives up what it computed since the last commit: `settle` sees to it.
  [[nodiscard]] error unusable(const std::string& what) {
    unusable_ = true;
    return fail(errc::non_finite, "this peer's contribution", what);
  }

  result<verdict> sit_out(const error& why) {
    CAUSEWAY_ASSIGN(const verdict judged, env_.group->sit_out(why));
    entered_ = candidate_ = false;
    skipped_ = 0;
    if (!shares_inner_) reset_inner();
    return judged;
  }

  /// kept_ ← data, which must be finite: one pass for both.
  result<void> keep_finite(std::span<const float> data) {
    kept_.resize(data.size());
    if (collective::copy_finite(pool(), data, kept_)) return {};
    return unusable("it holds NaN or infinity");
  }

  /// Whether an exchange of this peer's failed because its own values were refused.
  [[nodiscard]] bool is_refused(const error& why) const {
    return can_sit_out() && why.code == errc::non_finite && why.culprit == self();
  }

  /// The gradient is not finite. An overflow costs one step; parameters that are not finite cost all since the last commit,
  /// and so does a gradient that others have a share in, or one after the other.
  result<void> without_step(const error& why) {
    if (entered_ || ++skipped_ > steps_skipped || !std::isfinite(norm_of(parameters()))) return unusable(why.message);
    log()(severity::warning, why.text() + ": this step is skipped");
    return {};
  }

  // Equal shares scale by exactly 1.
  result<void> weigh(std::span<float> data) {
    const auto scale = static_cast<float>(entry_.share * peers());
    return scale == 1.0F ? result<void>{} : rows().scale(data, scale);
  }

  [[nodiscard]] std::uint64_t hash_of(std::span<const float> row) {
    if constexpr (requires { model_.backend().hash(row); }) {
      return model_.backend().hash(row);
    } else {
      return kernels::row_hash(pool(), row);
    }
  }

  template <class Comm>
  void adopted(Comm& comm, std::span<const float> previous) {
    if (previous.empty()) uncommitted_ = 0;
    comm.adopt(*this, previous);
    parameters_changed();
  }

  // The gradients may be what this peer is about to exchange.
  template <class Comm>
  result<void> replay(Comm& comm, std::span<const float> mean) {
    const std::span<float> row = gradients();
    if (mean.size() != row.size()) return fail(errc::wrong_model, "replay", "the mean of a round has another length");
    const std::vector<float> own(row.begin(), row.end());
    std::copy(mean.begin(), mean.end(), row.begin());
    auto outcome = comm.replay(*this);
    std::copy(own.begin(), own.end(), row.begin());
    parameters_changed();
    return outcome;
  }

  std::uint64_t name_of_stream() const { return elastic() ? env_.group->identity() : std::uint64_t{world_->self()}; }

  [[nodiscard]] collective::collective_options own_exchange_options() {
    collective::collective_options options = exchange_options();
    options.workspace = &workspace_;
    return options;
  }

  result<void> verify_parent(const std::string& complaint) {
    if (peers() == 1) return {};
    std::vector<std::uint64_t> hashes(peers());
    CAUSEWAY_TRY(collective::all_gather(transport(), {.channel = collective::channels::state, .step = round_},
                                        std::as_bytes(std::span{&parent_, 1}), std::as_writable_bytes(std::span{hashes}),
                                        own_exchange_options()));
    for (std::uint32_t peer = 0; peer < peers(); ++peer) {
      if (hashes[peer] != parent_) return fail(errc::diverged, "peer " + std::to_string(peer), complaint);
    }
    return {};
  }

  M model_;
  Inner inner_;
  environment env_;  // its transport is moved to world_
  trainer_options options_;
  std::unique_ptr<net::any_transport> world_;  // stays where it is when the context moves: group_ refers to it
  std::optional<net::any_transport> group_;
  bool keeps_inputs_;

  rng random_;
  rng shared_random_;
  std::uint64_t step_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t parent_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t micro_batch_ = 0;
  float gradient_norm_ = 0;
  float rate_ = 0;

  static constexpr std::uint32_t steps_skipped = 3;  // in a row, before the shared state is taken over again

  round_entry entry_;
  bool unusable_ = false;      // what this peer computed since the last commit
  bool shares_inner_ = false;  // the inner optimizer is part of the shared state
  std::uint32_t skipped_ = 0;  // inner steps in a row whose gradient was not finite
  bool skip_ = false;          // the next inner step
  bool scheduled_by_rounds_ = false;
  bool resumed_ = false;           // step_ was set during the step under way
  bool entered_ = false;           // into the exchange under way
  bool candidate_ = false;         // the shared state is that of a round which is not settled yet
  std::uint64_t uncommitted_ = 0;  // samples trained on since the last committed contribution

  std::span<float> updates_;
  std::vector<float> kept_;
  std::vector<float> received_;
  collective::collective_workspace workspace_;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CONTEXT_HPP

// ---- causeway/stage/layout.hpp ----
#ifndef CAUSEWAY_STAGE_LAYOUT_HPP
#define CAUSEWAY_STAGE_LAYOUT_HPP

// Who holds and computes which blocks, where peers come and go: pipelines that need not be cut alike, and may be of
// different length. Where pipelines are cut alike, one may lack a stage: its micro-batches take a detour there. All peers
// of an attempt work out the same layout from the same facts.

namespace causeway::inline CAUSEWAY_ABI::stage {

/// In the place of a peer: the seat is empty.
inline constexpr std::uint64_t nobody = 0;

/// One peer's place.
struct seat {
  std::uint64_t peer = nobody;
  nn::block_range computes;
  /// Rising and apart, `computes` within one of them: what else it keeps up to date, for when another peer is lost. None:
  /// what it computes.
  std::vector<nn::block_range> keeps{};

  [[nodiscard]] std::vector<nn::block_range> held() const {
    return keeps.empty() ? std::vector<nn::block_range>{computes} : keeps;
  }
  [[nodiscard]] bool holds(std::int64_t block) const {
    const auto has = [&](const nn::block_range& r) { return r.first <= block && block < r.last; };
    return keeps.empty() ? has(computes) : std::any_of(keeps.begin(), keeps.end(), has);
  }
  friend bool operator==(const seat&, const seat&) = default;
};

/// One whole pipeline.
struct replica {
  std::vector<seat> seats;          ///< in the order of the model
  std::uint32_t micro_batches = 0;  ///< its share of the global batch

  friend bool operator==(const replica&, const replica&) = default;
};

/// Peers without a seat are spare.
struct layout {
  std::vector<replica> replicas;

  struct place {
    std::size_t replica = 0, rank = 0;
  };
  /// Where a peer is; nullptr: spare.
  [[nodiscard]] const seat* find(std::uint64_t peer, place* at = nullptr) const {
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      for (std::size_t s = 0; s < replicas[r].seats.size(); ++s) {
        if (replicas[r].seats[s].peer != peer) continue;
        if (at != nullptr) *at = {r, s};
        return &replicas[r].seats[s];
      }
    }
    return nullptr;
  }
  /// The peers that hold a block, in the order of replicas and ranks.
  [[nodiscard]] std::vector<std::uint64_t> holders(std::int64_t block) const {
    std::vector<std::uint64_t> all;
    for (const replica& r : replicas) {
      for (const seat& s : r.seats) {
        if (s.peer != nobody && s.holds(block)) all.push_back(s.peer);
      }
    }
    return all;
  }
  /// The number of the first micro-batch of a replica.
  [[nodiscard]] std::uint32_t first_micro_batch(std::size_t of) const {
    std::uint32_t sum = 0;
    for (std::size_t r = 0; r < of; ++r) sum += replicas[r].micro_batches;
    return sum;
  }

  /// Those who have a seat, in the order of replicas and ranks.
  [[nodiscard]] std::vector<std::uint64_t> seated() const {
    std::vector<std::uint64_t> all;
    for (const replica& r : replicas) {
      for (const seat& s : r.seats) {
        if (s.peer != nobody) all.push_back(s.peer);
      }
    }
    return all;
  }
  [[nodiscard]] bool has_empty_seats() const {
    std::size_t seats = 0;
    for (const replica& r : replicas) seats += r.seats.size();
    return seated().size() < seats;
  }
  /// Who computes each stage of each micro-batch of the global batch: [micro-batch][stage], places in `seated()`.
  /// Micro-batches go to the pipelines in turn; where one has an empty seat, to the others' peers of that stage in turn.
  /// Precondition: `check` finds nothing wrong, and all replicas are cut alike.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes() const {
    std::vector<std::vector<std::uint32_t>> place_of;  // [replica][stage]
    std::uint32_t next = 0;
    for (const replica& r : replicas) {
      auto& row = place_of.emplace_back();
      for (const seat& s : r.seats) row.push_back(s.peer != nobody ? next++ : empty);
    }
    std::vector<std::vector<std::uint32_t>> all(first_micro_batch(replicas.size()));
    std::vector<std::size_t> turn(place_of.front().size());
    for (std::size_t m = 0; m < all.size(); ++m) {
      for (std::size_t s = 0; s < turn.size(); ++s) {
        std::uint32_t peer = place_of[m % replicas.size()][s];
        while (peer == empty) peer = place_of[turn[s]++ % replicas.size()][s];
        all[m].push_back(peer);
      }
    }
    return all;
  }

  friend bool operator==(const layout&, const layout&) = default;

  /// Every replica computes every block once, every micro-batch has one replica, every peer at most one seat. Where seats
  /// are empty, another peer of the replica keeps what is missing, or replicas are cut alike and somebody computes every
  /// stage.
  [[nodiscard]] result<void> check(std::int64_t layers, std::uint32_t micro_batches) const {
    const auto wrong = [](const std::string& what) { return fail(errc::invalid_argument, "layout", what); };
    std::vector<std::uint64_t> peers;
    for (const replica& r : replicas) {
      std::int64_t next = 0;
      for (const seat& s : r.seats) {
        if (s.computes.first != next || s.computes.size() < 1) return wrong("a replica does not compute each block once");
        CAUSEWAY_TRY(nn::model_part{s.held()}.check(layers));
        if (!nn::model_part{s.held()}.holds(s.computes)) return wrong("a peer computes what it does not hold");
        next = s.computes.last;
        if (s.peer != nobody) peers.push_back(s.peer);
      }
      if (next != layers) return wrong("a replica does not compute each block once");
    }
    std::sort(peers.begin(), peers.end());
    if (std::adjacent_find(peers.begin(), peers.end()) != peers.end()) return wrong("a peer has two seats");
    if (replicas.empty() || first_micro_batch(replicas.size()) != micro_batches)
      return wrong("the replicas' micro-batches are not those of the global batch");
    return has_empty_seats() ? check_detours() : result<void>{};
  }

 private:
  static constexpr std::uint32_t empty = UINT32_MAX;

  // Where each empty seat has another of its pipeline that keeps its stage, that one does it; else micro-batches go to
  // other pipelines, which must be cut alike.
  [[nodiscard]] static bool is_kept_in(const replica& r, const seat& empty_one) {
    return std::any_of(r.seats.begin(), r.seats.end(), [&](const seat& s) {
      return s.peer != nobody && nn::model_part{s.held()}.holds(empty_one.computes);
    });
  }
  [[nodiscard]] result<void> check_detours() const {
    const bool all_kept = std::all_of(replicas.begin(), replicas.end(), [](const replica& r) {
      return std::all_of(r.seats.begin(), r.seats.end(),
                         [&](const seat& s) { return s.peer != nobody || is_kept_in(r, s); });
    });
    if (all_kept) return {};
    for (const replica& r : replicas) {
      const auto& first = replicas.front().seats;
      const bool alike = std::equal(r.seats.begin(), r.seats.end(), first.begin(), first.end(),
                                    [](const seat& a, const seat& b) { return a.computes == b.computes; });
      if (!alike) return fail(errc::invalid_argument, "layout", "seats are empty, but replicas are not cut alike");
      for (const seat& s : r.seats) {
        if (holders(s.computes.first).empty()) return fail(errc::invalid_argument, "layout", "nobody computes a stage");
      }
    }
    return {};
  }
};

/// The rank whose stage `rank` keeps too, where every stage is on two ranks (Bamboo): the one behind it, the last keeps the
/// first.
[[nodiscard]] constexpr std::size_t successor(std::size_t rank, std::size_t ranks) noexcept { return (rank + 1) % ranks; }
/// And the one that keeps that of `rank`.
[[nodiscard]] constexpr std::size_t shadow_of(std::size_t rank, std::size_t ranks) noexcept {
  return (rank + ranks - 1) % ranks;
}

/// `micro_batches` over `replicas`, as evenly as can be; the first get one more.
[[nodiscard]] inline std::vector<std::uint32_t> even_shares(std::uint32_t micro_batches, std::size_t replicas) {
  const auto n = static_cast<std::uint32_t>(replicas);
  std::vector<std::uint32_t> shares(replicas, micro_batches / n);
  for (std::uint32_t i = 0; i < micro_batches % n; ++i) ++shares[i];
  return shares;
}

/// `layers` blocks in `stages` ranges, as evenly as can be. Precondition: 1 <= stages <= layers.
[[nodiscard]] inline std::vector<nn::block_range> even_cut(std::int64_t layers, std::int64_t stages) {
  CAUSEWAY_EXPECT(stages >= 1 && stages <= layers);
  std::vector<nn::block_range> ranges;
  for (std::int64_t s = 0; s < stages; ++s) ranges.push_back({s * layers / stages, (s + 1) * layers / stages});
  return ranges;
}

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_LAYOUT_HPP

// ---- causeway/stage/run_history.hpp ----
#ifndef CAUSEWAY_STAGE_RUN_HISTORY_HPP
#define CAUSEWAY_STAGE_RUN_HISTORY_HPP

// How a run of elastic pipelines went so far, for recovery policies that look back. It is voted on with each step, so that
// all peers have the same one, also those that have just come.

namespace causeway::inline CAUSEWAY_ABI::stage {

/// A regular value without padding: it travels as it is.
struct run_history {
  static constexpr std::size_t most = 60;  ///< intervals that are kept

  std::uint32_t replicas = 0;               ///< that took the last step
  std::uint32_t stages = 0;                 ///< of the first of them
  std::array<std::uint16_t, most> there{};  ///< peers at the end of each interval, the newest last; 0: before the run

  /// The run has taken its step number `steps`, laid out like this, with so many peers there. `interval`: in steps; 0:
  /// nothing, for a recovery policy that does not look back.
  void took_step(std::uint64_t steps, std::uint64_t interval, const layout& l, std::size_t peers) {
    if (interval == 0) return;
    replicas = static_cast<std::uint32_t>(l.replicas.size());
    stages = static_cast<std::uint32_t>(l.replicas.front().seats.size());
    if (steps % interval == 0) add_interval(peers);
  }
  void add_interval(std::size_t peers) {
    std::shift_left(there.begin(), there.end(), 1);
    there.back() = static_cast<std::uint16_t>(std::min<std::size_t>(peers, std::numeric_limits<std::uint16_t>::max()));
  }

  /// Peers of each interval that there was.
  [[nodiscard]] std::vector<std::size_t> counts() const {
    const auto first = std::find_if(there.begin(), there.end(), [](std::uint16_t n) { return n > 0; });
    return {first, there.end()};
  }

  friend bool operator==(const run_history&, const run_history&) = default;
};

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_RUN_HISTORY_HPP

// ---- causeway/parallel/crew.hpp ----
#ifndef CAUSEWAY_PARALLEL_CREW_HPP
#define CAUSEWAY_PARALLEL_CREW_HPP

// What elastic pipelines ask of the membership of all their peers: who takes part in an attempt, and whether the run has
// taken the step that came of it. train/crew_group.hpp makes one.

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// What all peers hold alike. Parameters are not among it: with the norm, everybody whose gradient is complete makes the
/// same step from them.
struct crew_words {
  std::uint64_t step = 0;   ///< steps that the run has taken
  std::uint64_t state = 0;  ///< names the parameters after them
  double norm = 0;          ///< of the last step's gradient, over the whole model
  stage::run_history history{};
  double loss = 0;  ///< of the last step, summed over the tokens of the global batch

  friend bool operator==(const crew_words&, const crew_words&) = default;
};

/// Peers that try a step together.
struct crew_attempt {
  net::any_transport* transport = nullptr;
  std::uint64_t round = 0;
  std::uint64_t parent = 0;
  time_point deadline = no_deadline;
  std::uint32_t attempt = 0;  ///< another one for every attempt at a round
};

/// All calls from the trainer's thread.
class crew {
 public:
  virtual ~crew() = default;
  [[nodiscard]] virtual std::uint64_t identity() const = 0;
  [[nodiscard]] virtual const crew_words& words() const = 0;
  /// Blocks until the next attempt begins; the one that is under way, if nothing has ended it. Errors that another attempt
  /// may cure are for the fault policy.
  virtual result<crew_attempt> begin_attempt() = 0;
  /// Every peer's gradient is complete, whether or not all know. Success: the run has taken a step; `words()` say which.
  virtual result<void> propose(const crew_words& next) = 0;
  /// What the peers did together did not go through. Success: another attempt may, or `words()` are others.
  virtual result<void> failed(const error& why) = 0;
  /// The step under way was finished by others: the next verdict is commit.
  virtual void finished_by_others() = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_CREW_HPP

// ---- causeway/train/crew_group.hpp ----
#ifndef CAUSEWAY_TRAIN_CREW_GROUP_HPP
#define CAUSEWAY_TRAIN_CREW_GROUP_HPP

// All peers of elastic pipelines as one membership. A round is a step. What the peers vote on is not the parameters, of
// which each has a part, but that the step's gradient is complete everywhere, and its norm: whoever knows that makes the
// same step, now or when it hears of it. So no state has to be taken back when an attempt fails.

namespace causeway::inline CAUSEWAY_ABI {

/// environment::group and the policy's crew in one. The communication policy sees a peer that is alone: the gradients are
/// summed by the pipelines. Threading: as elastic_group.
class crew_group final : public elastic_group, public parallel::crew {
 public:
  /// `below`: the membership of all peers; a quota and a budget of 0 fit it, since samples are not handed out by it, and
  /// member_options::enters_afresh must be set.
  explicit crew_group(std::shared_ptr<elastic_group> below) : below_{std::move(below)} {}

  // ---- for the context ------------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t identity() const override { return below_->identity(); }
  [[nodiscard]] std::uint64_t round() const override { return below_->round(); }
  [[nodiscard]] std::uint64_t parent() const override { return below_->parent(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return words_.state; }
  [[nodiscard]] std::uint64_t contributed() const override { return UINT64_MAX; }  // nothing is left over
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override {
    return below_->draw(skipped, count);
  }
  [[nodiscard]] bool budget_used() const override { return below_->budget_used(); }
  void leave() override { below_->leave(); }

  /// What the others hold alike is not what the context would share.
  result<void> open(shared_state, thread_pool& pool) override {
    return below_->open({{std::as_writable_bytes(std::span{&words_, 1})}, [](std::span<const float>) {}}, pool);
  }

  result<round_entry> enter(std::uint64_t) override {
    return round_entry{&alone_, below_->round() + 1, below_->parent(), no_deadline, 1, false};
  }
  result<void> exchanged() override { return {}; }

  result<verdict> settle(const result<void>& outcome, bool) override {
    if (std::exchange(finished_by_others_, false)) return verdict::commit;  // the attempt begun is the next step's
    if (outcome) return verdict::commit;                                    // `propose` came before
    CAUSEWAY_TRY(below_->settle(outcome, false));
    return verdict::retry;  // what became of it, the pipelines see in the words
  }

  // ---- for the pipelines ----------------------------------------------------------------------------------------------

  [[nodiscard]] const parallel::crew_words& words() const override { return words_; }

  result<parallel::crew_attempt> begin_attempt() override {
    CAUSEWAY_ASSIGN(const round_entry entry, below_->enter(1));
    return parallel::crew_attempt{entry.transport, entry.round, entry.parent, entry.deadline, entry.attempt};
  }

  result<void> propose(const parallel::crew_words& next) override {
    CAUSEWAY_TRY(below_->exchanged());
    words_ = next;
    CAUSEWAY_ASSIGN(const verdict judged, below_->settle({}, true));
    if (judged == verdict::commit) return {};
    return fail(errc::cancelled, "step", "the others did not vote for it");
  }

  result<void> failed(const error& why) override {
    CAUSEWAY_TRY(below_->settle(why, false));
    return {};
  }

  void finished_by_others() override { finished_by_others_ = true; }

 private:
  std::shared_ptr<elastic_group> below_;
  parallel::crew_words words_;
  net::any_transport alone_{};
  bool finished_by_others_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CREW_GROUP_HPP

// ---- causeway/net/link_transport.hpp ----
#ifndef CAUSEWAY_NET_LINK_TRANSPORT_HPP
#define CAUSEWAY_NET_LINK_TRANSPORT_HPP

// Some links of a fabric as a Transport: the peers of one view, ranked 0 to size-1, as collectives want them. Every message
// carries the epoch of the view, whatever epoch the caller wrote, so that nothing of an earlier view is taken for ours.

namespace causeway::inline CAUSEWAY_ABI::net {

/// Models Transport. Threading: as the fabric's `send`, `receive` and `wait`, from the trainer's thread alone. Operations
/// that are still open when it goes away belong to the fabric, as their buffers do: end them with fabric::cancel_before.
/// Errors name the fabric's peer, not the rank: a peer's name outlives the view.
class link_transport {
 public:
  /// `link_of_rank[r]` is the link of rank r; the entry of `self_rank` is never looked at.
  link_transport(std::shared_ptr<fabric> over, std::vector<peer_index> link_of_rank, peer_index self_rank,
                 std::uint32_t epoch)
      : fabric_{std::move(over)}, links_{std::move(link_of_rank)}, self_{self_rank}, epoch_{epoch} {
    CAUSEWAY_EXPECT(fabric_ != nullptr);
    CAUSEWAY_EXPECT(self_ < links_.size());
  }

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }
  [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] peer_index link_of(peer_index rank) const noexcept { return links_[rank]; }

  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return is_other(to) ? fabric_->send(links_[to], of_this_view(id), bytes) : no_operation;
  }

  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return is_other(from) ? fabric_->receive(links_[from], of_this_view(id), buffer) : no_operation;
  }

  result<std::size_t> wait(operation op, time_point deadline) {
    if (op == no_operation) return fail(errc::invalid_argument, "view", "there is no such other rank");
    return fabric_->wait(op, deadline);
  }

  [[nodiscard]] bool done(operation op) const { return op == no_operation || fabric_->done(op); }

  /// Of the whole fabric: control messages and other views count too.
  [[nodiscard]] traffic stats() const { return fabric_->stats(); }

 private:
  static constexpr operation no_operation = 0;

  [[nodiscard]] bool is_other(peer_index rank) const noexcept { return rank < links_.size() && rank != self_; }

  [[nodiscard]] message_id of_this_view(message_id id) const noexcept {
    id.epoch = epoch_;
    return id;
  }

  std::shared_ptr<fabric> fabric_;
  std::vector<peer_index> links_;
  peer_index self_;
  std::uint32_t epoch_;
};
static_assert(Transport<link_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_LINK_TRANSPORT_HPP

// ---- causeway/train/write_behind.hpp ----
#ifndef CAUSEWAY_TRAIN_WRITE_BEHIND_HPP
#define CAUSEWAY_TRAIN_WRITE_BEHIND_HPP

// Lets a membership's record be written beside everything else, and holds back what depends on it: a promise or a vote
// leaves this peer once it is durable, and in the order in which it was made. An fsync may take seconds; the network goes
// on meanwhile, and the leader and its members stay in touch:
//
// - A heartbeat is not held back. It names a term, but nobody votes for its sake, and proposals of that term wait. A leader
//   whose disk takes longer than its members would bear its silence says farewell instead, so that another one leads.
// - In place of a report that waits, the last one that was said goes out again, whoever asks: an earlier statement, still
//   true. A leader that resigned has made none to others, and says farewell again.

namespace causeway::inline CAUSEWAY_ABI::detail {

/// Threading: like its owner's other members; `write` alone runs without the lock, never twice at a time.
class write_behind {
 public:
  struct outlets {
    /// Runs the first without the lock, then the second with it, as net::fabric::aside does.
    std::function<void(std::function<void()>, std::function<void()>)> aside;
    std::function<bool(const std::vector<std::byte>&)> write;  ///< makes an encoded record durable
    std::function<void(net::peer_id, std::vector<std::byte>)> send;
    std::function<void(const membership::event&)> note;
    std::function<void()> failed;  ///< a record cannot be written: nothing of what waits is said, ever
    std::function<time_point()> now;
  };

  /// `patience`: how long a leader may wait for its disk. `run`: as in the messages.
  write_behind(outlets to, duration patience, std::uint64_t run)
      : to_{std::move(to)},
        patience_{patience},
        farewell_{membership::detail::encode(run, membership::detail::farewell{})} {}
  write_behind(const write_behind&) = delete;
  write_behind& operator=(const write_behind&) = delete;

  /// What is sent and noted from now on waits for this record.
  void persist(const membership::durable_record& record) {
    newest_ = std::make_shared<const std::vector<std::byte>>(membership::encode(record));
    ++asked_;
    begin_writing();
  }

  void send(net::peer_id to, std::vector<std::byte> message) {
    if (broken_) return;
    const auto kind = membership::detail::kind_of(message);
    if (idle()) return say(to, std::move(message));
    if (kind == membership::detail::number_of<membership::detail::heartbeat>) {
      overdue_ = overdue_ || to_.now() - began_ > patience_;
      return to_.send(to, overdue_ ? farewell_ : std::move(message));
    }
    const bool reports = kind == membership::detail::number_of<membership::detail::report>;
    if (reports) to_.send(to, last_report_.empty() ? farewell_ : last_report_);
    held_.push_back({asked_, letter{to, std::move(message)}});
  }

  void note(const membership::event& e) {
    if (idle()) return to_.note(e);
    if (broken_) return;
    held_.push_back({asked_, e});
  }

  /// Whether a leader had to say farewell: it is to lead no longer. Said once.
  [[nodiscard]] bool must_resign() { return std::exchange(overdue_, false); }
  /// Nothing waits.
  [[nodiscard]] bool idle() const noexcept { return written_ == asked_; }
  /// Nothing waits any more, or for ever: the disk has failed.
  [[nodiscard]] bool over() const noexcept { return idle() || broken_; }

  /// An orderly end: what waits is written and said. `locked` runs a function with the lock held; `finish` returns once no
  /// work is under way aside. Nothing of it blocks in the simulator, where destructors must not.
  template <class Locked, class Finish>
  void flush(Locked locked, Finish finish) {
    if (over()) return;
    const auto good = std::make_shared<bool>(false);
    locked([&] { to_.aside([this, record = newest_, good] { *good = to_.write(*record); }, [] {}); });
    finish();
    locked([&] { wrote(asked_, *good); });
  }

 private:
  struct letter {
    net::peer_id to = 0;
    std::vector<std::byte> message;
  };
  struct waiting {
    std::uint64_t record = 0;  ///< the number of the record that it waits for
    std::variant<letter, membership::event> what;
  };

  /// One record at a time: those that were replaced meanwhile are in the newest.
  void begin_writing() {
    if (writing_ || over()) return;
    writing_ = true;
    began_ = to_.now();
    const auto good = std::make_shared<bool>(false);
    to_.aside([this, record = newest_, good] { *good = to_.write(*record); },
              [this, number = asked_, good] {
                writing_ = false;
                wrote(number, *good);
              });
  }

  void wrote(std::uint64_t number, bool good) {
    broken_ = !good;
    if (broken_) held_.clear();
    if (broken_) return to_.failed();
    written_ = number;
    while (!held_.empty() && held_.front().record <= written_) {
      auto next = std::move(held_.front().what);
      held_.pop_front();
      if (auto* const l = std::get_if<letter>(&next)) say(l->to, std::move(l->message));
      if (const auto* const e = std::get_if<membership::event>(&next)) to_.note(*e);
    }
    begin_writing();
  }

  void say(net::peer_id to, std::vector<std::byte> message) {
    if (membership::detail::kind_of(message) == membership::detail::number_of<membership::detail::report>) {
      last_report_ = message;
    }
    to_.send(to, std::move(message));
  }

  outlets to_;
  duration patience_;
  std::vector<std::byte> farewell_;
  time_point began_;
  std::shared_ptr<const std::vector<std::byte>> newest_;
  std::uint64_t asked_ = 0;    // records so far
  std::uint64_t written_ = 0;  // the number of the newest that is durable
  bool writing_ = false;
  bool broken_ = false;
  bool overdue_ = false;
  std::deque<waiting> held_;
  std::vector<std::byte> last_report_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_WRITE_BEHIND_HPP

// ---- causeway/train/member_control.hpp ----
#ifndef CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP
#define CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP

// The part of a member that works while its trainer computes: hands the fabric's events to the membership protocol and to
// the transfer of state, and carries out what they want done. Everything here runs with the fabric's lock held.

#include <exception>

namespace causeway::inline CAUSEWAY_ABI {

struct member_options {
  membership::options protocol;   ///< run id, expected peers, smallest quorum, samples per round and in all
  std::vector<std::string> dial;  ///< addresses of live peers; none: found a new run, unless the disk knows one
  std::string folder = "member";  ///< on the storage
  std::uint32_t store_every = 1;  ///< rounds between copies of the shared state on disk; 0: none, a vote keeps it in memory
  net::arrival_options exchange{};               ///< how long an exchange may take, learned from earlier ones
  duration say_after = std::chrono::seconds{5};  ///< a wait longer than this is logged, then at double intervals
  /// How long a newcomer may find nobody of the run, before it ends with errc::unreachable; ten times as long once it has
  /// been in. 0: for ever.
  duration patience{0};
  /// A member of the last round known waits for the others for ever, as long as there is something to train.
  bool members_wait = true;
  /// What this peer has for a round is worth nothing on top of a later one: when it has to fetch a state instead of taking
  /// part, `enter` ends with errc::cancelled, and the step with verdict::commit of the others' round.
  bool enters_afresh = false;
  /// Asked, with the fabric's lock held, while `enter` waits for an exchange: true ends it with errc::cancelled, because
  /// something else has to be done first. For work that others need before they can come.
  std::function<bool()> called_away{};
  /// A number that others cannot guess, from the system's source of such numbers: it protects what this peer gives away
  /// from receipts for what never arrived. 0: made of the id and the time, which is less.
  std::uint64_t secret = 0;
  /// What happens, for a checker. With the fabric's lock held.
  std::function<void(const membership::event&)> journal{};
  /// Control messages whose first byte is 0x90 or more belong to the program. With the fabric's lock held.
  std::function<void(net::peer_index link, std::span<const std::byte>)> other_messages{};
  /// Called with the name of each point of a round that is passed: see docs/design/membership.md.
  std::function<void(std::string_view point)> passing{};
};

namespace detail {

// The record is in its file twice, so that one damaged place costs nothing: without it this peer would be somebody else.
inline result<membership::durable_record> read_member_record(io::any_storage& storage, const std::string& folder) {
  CAUSEWAY_ASSIGN(const io::byte_vector bytes, storage.read(folder + "/record"));
  const std::span<const std::byte> all{bytes};
  auto first = membership::decode_durable_record(all.first(all.size() / 2));
  return first ? std::move(first) : membership::decode_durable_record(all.last(all.size() / 2));
}

inline result<void> write_member_record(io::any_storage& storage, const std::string& folder,
                                        const std::vector<std::byte>& bytes) {
  return storage.write_atomic(folder + "/record", [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::span{bytes}));
    return sink(std::span{bytes});
  });
}

}  // namespace detail

/// The identity that this storage has in a run, or `fresh` if it has none: a record that is torn or lost is no identity.
inline net::peer_id member_identity(io::any_storage storage, const std::string& folder, std::uint64_t run,
                                    net::peer_id fresh) {
  const auto record = detail::read_member_record(storage, folder);
  return record && record->run == run ? record->self : fresh;
}

class member_control final : net::fabric_events, membership::effects, membership::transfer_effects {
 public:
  static result<std::unique_ptr<member_control>> make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                                      const member_options& options, log_sink log) {
    auto record = membership::fresh_record(options.protocol.run, fabric->id());
    auto found = detail::read_member_record(storage, options.folder);
    if (found && found->run == options.protocol.run && found->self == fabric->id()) record = std::move(found).value();
    return std::unique_ptr<member_control>{
        new member_control{std::move(fabric), std::move(storage), options, std::move(log), std::move(record)}};
  }

  /// A round and the name of its state.
  struct named_round {
    std::uint64_t round = 0;
    std::uint64_t hash = 0;
  };

  /// What this peer knows to be committed, and what it voted for afterwards, as of its last process.
  [[nodiscard]] std::optional<named_round> remembered() const {
    const auto& newest = protocol_.durable().newest;
    return newest ? std::optional{named_round{newest->round, newest->state}} : std::nullopt;
  }
  [[nodiscard]] std::optional<named_round> voted_for() const {
    const auto& vote = protocol_.durable().accepted;
    return vote ? std::optional{named_round{vote->value.round, vote->value.state}} : std::nullopt;
  }

  // ---- with the lock held -------------------------------------------------------------------------------------------

  /// Begins to take part. `stored`: what the disk had; `initial`: the hash of the state in memory.
  void begin(const std::optional<named_round>& stored, std::uint64_t initial) {
    const bool known = protocol_.durable().newest.has_value();
    if (options_.dial.empty() && !known) {
      protocol_.found(initial, fabric_->now());
    } else {
      protocol_.join(options_.dial, fabric_->now());
      if (stored) protocol_.holds(stored->round, stored->hash, fabric_->now());
    }
    settle();
  }

  void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples) {
    protocol_.ready(round, parent, samples, fabric_->now());
    settle();
  }
  [[nodiscard]] bool completed(membership::ballot at) {
    const bool in_time = protocol_.completed(at, fabric_->now());
    settle();
    return in_time;
  }
  void voted(membership::ballot at, std::uint64_t round, std::uint64_t hash) {
    protocol_.voted(at, round, hash, fabric_->now());
    settle();
  }
  void failed(membership::ballot at, errc why, const std::vector<net::peer_id>& suspects) {
    protocol_.failed(at, why, suspects, fabric_->now());
    settle();
  }
  void unusable(membership::ballot at) {
    protocol_.unusable(at, fabric_->now());
    settle();
  }
  void holds(std::uint64_t round, std::uint64_t hash) {
    protocol_.holds(round, hash, fabric_->now());
    settle();
  }
  void leave() {
    protocol_.leave(fabric_->now());
    settle();
  }

  /// Whether the record on disk says what this peer knows, or the disk has failed.
  [[nodiscard]] bool written() const noexcept { return behind_.over(); }
  [[nodiscard]] const membership::situation& now_what() const noexcept { return protocol_.now_what(); }
  [[nodiscard]] const membership::ledger& ledger() const noexcept { return protocol_.samples(); }
  [[nodiscard]] std::vector<std::byte> record_of(std::uint64_t round, std::uint64_t hash) const {
    return protocol_.record_of(round, hash);
  }
  [[nodiscard]] const membership::protocol& decisions() const noexcept { return protocol_; }
  /// Why a peer that has found nobody for `patience` should wait no longer; none while it should, or patience is 0.
  [[nodiscard]] std::optional<error> alone_too_long(duration patience) const {
    const duration alone = protocol_.alone_for(fabric_->now());
    const bool complete = protocol_.samples().complete();
    const bool is_member = membership::contains(now_what().newest.members, fabric_->id());
    if (patience <= duration{0} || alone < patience) return std::nullopt;
    if (is_member && options_.members_wait && !complete) return std::nullopt;
    const std::string who = options_.dial.empty() ? "the run" : options_.dial.front();
    const std::string since = std::to_string(static_cast<std::int64_t>(seconds(alone))) + " s";
    if (complete) {
      return fail(errc::unreachable, who,
                  "the run is complete with round " + std::to_string(now_what().newest.round) + ", and since " + since +
                      " nobody is there any more who holds its result: look in the folders of its other peers");
    }
    return fail(errc::unreachable, who,
                "nobody of the run answers there, or at any other address that it was ever known at, since " + since +
                    ": it has ended, or its peers are elsewhere; join again at the address of a peer that runs, or start "
                    "the members of its last round again first");
  }

  /// The links of a view's members in their order. All but our own must have been met.
  [[nodiscard]] std::vector<net::peer_index> links_of(const membership::view& view) const {
    std::vector<net::peer_index> links;
    for (const auto& m : view.members) links.push_back(m.peer == fabric_->id() ? 0 : links_.at(m.peer));
    return links;
  }

  /// Members of a view without a connection to this peer.
  [[nodiscard]] std::vector<net::peer_id> missing_of(const membership::view& view) const {
    std::vector<net::peer_id> missing;
    for (const auto& m : view.members) {
      if (!meets(m.peer)) missing.push_back(m.peer);
    }
    return missing;
  }

  [[nodiscard]] bool meets(net::peer_id id) const {
    const auto at = links_.find(id);
    return id == fabric_->id() || (at != links_.end() && fabric_->is_up(at->second));
  }

  /// Starts to connect to the members of a view that are missing.
  void dial_missing(const membership::view& view) {
    refused_.clear();
    for (const auto& m : view.members) {
      if (!meets(m.peer)) fabric_->dial(m.address);
    }
  }

  /// Whether a dial since then was in vain.
  [[nodiscard]] bool dialled_in_vain() const noexcept { return !refused_.empty(); }

  // ---- the shared state ---------------------------------------------------------------------------------------------

  /// Others may fetch it from now on. `image` must be hashed and stay as it is until withdrawn.
  void offer(std::uint64_t round, const membership::state_image& image) {
    if (offered_ == round && transfer_.giving.offers({round, image.root()})) return;
    withdraw();
    transfer_.giving.offer(round, image);
    offered_ = round;
  }
  /// The memory of what is offered is about to change. What others fetch of it goes on from a copy, if there is one.
  void withdraw() {
    if (!offered_) return;
    transfer_.keeping.withdrawn(*offered_);
    if (!transfer_.keeping.has_copy(*offered_)) transfer_.giving.withdraw(*offered_);
    offered_.reset();
  }
  /// Whether a copy must be made before `withdraw`.
  [[nodiscard]] bool needs_copy() const { return offered_ && transfer_.keeping.needs_copy(*offered_); }
  void copied(std::shared_ptr<const membership::kept_bytes> bytes) {
    if (offered_) transfer_.keeping.copied(*offered_, std::move(bytes));
  }
  /// Whether others will want to know what rounds exchanged.
  [[nodiscard]] bool keeps_means() const noexcept { return transfer_.keeping.any(); }
  void add_mean(std::uint64_t round, std::shared_ptr<const membership::kept_bytes> mean) {
    transfer_.keeping.add_mean(round, std::move(mean));
  }
  void forget_means() { transfer_.keeping.clear(); }
  /// This peer exchanges data, or no longer.
  void exchanging(bool yes) {
    transfer_.giving.busy(yes, fabric_->now());
    settle();
  }
  /// Beside the other: a vote of the last process, which may be the only copy there is.
  void offer_spare(std::uint64_t round, const membership::state_image& image) { transfer_.giving.offer(round, image); }
  void withdraw_spare(std::uint64_t round) { transfer_.giving.withdraw(round); }

  /// `keep`: the holders are asked to keep it, and what later rounds exchange, until `end_catch_up`.
  void start_fetch(std::uint64_t round, std::uint64_t hash, const membership::state_image& image, bool keep) {
    dial_holders();
    transfer_.kept.end();
    if (keep) transfer_.kept.begin({round, hash}, holders());
    transfer_.taking.start({round, hash}, holders(), image, fabric_->now());
    settle();
  }
  void start_mean(std::uint64_t round, std::uint64_t root, const membership::state_image& image) {
    transfer_.taking.start({round | membership::mean_bit, root}, transfer_.kept.keepers(), image, fabric_->now());
    settle();
  }
  [[nodiscard]] membership::kept_for_us& kept() noexcept { return transfer_.kept; }
  void stop_fetch() { transfer_.taking.stop(); }

  /// Asks the leader to hold the next round back for so long. `time_was_given` says when it does.
  void ask_for_time(duration needs) {
    time_given_ = false;
    const auto ns = static_cast<std::uint64_t>(std::max<duration::rep>(needs.count(), 1));
    post(protocol_.leader(),
         encode(membership::transfer_message{.kind = membership::transfer_kind::ask_time, .newest = ns}), false);
  }
  [[nodiscard]] bool time_was_given() const noexcept { return time_given_; }
  [[nodiscard]] membership::fetcher& fetch() noexcept { return transfer_.taking; }

  // ---- for the checker: what the trainer did --------------------------------------------------------------------------

  /// `drawn`: sample numbers, of which the last `count` were trained on for the round after `on`.
  void record_trained(const membership::commit_record& on, std::span<const std::uint64_t> drawn, std::uint64_t count) {
    if (!options_.journal || count == 0) return;
    membership::event e;
    e.what = membership::event::trained;
    e.round = on.round + 1;
    e.parent = on.chain();
    for (const std::uint64_t n : drawn.last(std::min<std::size_t>(drawn.size(), count))) {
      if (!e.ranges.empty() && e.ranges.back().first + e.ranges.back().count == n) {
        ++e.ranges.back().count;
      } else {
        e.ranges.push_back({n, 1});
      }
    }
    record(std::move(e));
  }
  void record_updates(const membership::view& view) {
    if (!options_.journal) return;
    for (const auto& m : view.members) {
      if (m.peer == fabric_->id()) continue;
      membership::event e;
      e.what = membership::event::update_accepted;
      e.from = m.peer;
      e.at = view.at;
      e.round = view.round;
      e.parent = view.parent;
      record(std::move(e));
    }
  }
  void record_held(const membership::commit_record& record_of) {
    membership::event e;
    e.what = membership::event::held;
    e.round = record_of.round;
    e.hash = record_of.state;
    record(std::move(e));
  }

  void post(net::peer_id to, std::vector<std::byte> message, bool bulk) {
    const auto at = links_.find(to);
    if (at != links_.end()) fabric_->post(at->second, std::move(message), bulk);
  }

  [[nodiscard]] std::string describe() const {
    std::string text = protocol_.describe(fabric_->now());
    if (transfer_.taking.state() == membership::fetcher::status::running) {
      const auto p = transfer_.taking.progress();
      text += "fetching the state of round " + std::to_string(transfer_.taking.goal().round) + ": " +
              std::to_string(p.bytes_done) + " of " + std::to_string(p.bytes_total) + " bytes, from " +
              std::to_string(p.holders.size()) + " peers\n";
    }
    return text;
  }

  void attach() { fabric_->attach(this); }
  /// In an orderly end what others are to hear is written and said first.
  void detach() {
    fabric_->attach(nullptr);
    if (std::uncaught_exceptions() != 0) return;
    behind_.flush([this](const std::function<void()>& what) { fabric_->locked(what); },
                  [this] { fabric_->attach(nullptr); });
  }

 private:
  member_control(std::shared_ptr<net::fabric> fabric, io::any_storage storage, const member_options& options, log_sink log,
                 membership::durable_record record)
      : fabric_{std::move(fabric)},
        storage_{std::move(storage)},
        options_{options},
        log_{std::move(log)},
        behind_{outlets(), options.protocol.silence.floor, options.protocol.run},
        protocol_{protocol_options(), std::move(record), *this},
        transfer_{*this, transfer_options()} {}

  detail::write_behind::outlets outlets() {
    return {.aside = [this](auto work, auto then) { fabric_->aside(std::move(work), std::move(then)); },
            .write = [this](const std::vector<std::byte>& record) { return write(record); },
            .send = [this](net::peer_id to, std::vector<std::byte> message) { post(to, std::move(message), false); },
            .note =
                [this](const membership::event& e) {
                  if (options_.journal) options_.journal(e);
                },
            .failed =
                [this] {
                  protocol_.disk_failed(fabric_->now());
                  settle();
                },
            .now = [this] { return fabric_->now(); }};
  }

  [[nodiscard]] membership::options protocol_options() const {
    membership::options o = options_.protocol;
    o.address = fabric_->address();
    return o;
  }
  [[nodiscard]] membership::transfer_options transfer_options() const {
    membership::transfer_options o;
    const auto now = static_cast<std::uint64_t>(fabric_->now().since_start.count());
    o.seed = options_.secret != 0 ? options_.secret : mix(fabric_->id(), now);
    return o;
  }

  // ---- net::fabric_events -------------------------------------------------------------------------------------------

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override {
    if (const auto before = peers_.find(link); before != peers_.end() && before->second != id) links_.erase(before->second);
    links_[id] = link;
    peers_[link] = id;
    protocol_.peer_up(id, address, fabric_->now());
    transfer_.peer_up(id, fabric_->now());
    settle();
  }
  void on_down(net::peer_index link, const error& why) override {
    const net::peer_id id = peers_[link];
    protocol_.peer_down(id, why.message, fabric_->now());
    transfer_.peer_down(id, fabric_->now());
    settle();
  }
  void on_unreachable(const std::string& address, const error& why) override {
    refused_ = address;
    protocol_.unreachable(address, why.message, fabric_->now());
    settle();
  }
  void on_control(net::peer_index link, std::span<const std::byte> message) override {
    const net::peer_id from = peers_[link];
    const bool others = !message.empty() && message.front() >= std::byte{0x90};
    if (membership::is_transfer_message(message)) {
      const auto taken = take_transfer(from, message);
      if (!taken) protocol_.malformed(from, taken.error().text(), fabric_->now());
    } else if (!others) {
      protocol_.message(from, message, fabric_->now());
    } else if (options_.other_messages) {
      options_.other_messages(link, message);
    } else {
      protocol_.malformed(from, "a message that nobody here reads", fabric_->now());
    }
    settle();
  }
  void on_wake() override {
    const time_point now = fabric_->now();
    if (protocol_wakes_ <= now) {
      protocol_wakes_ = no_deadline;
      protocol_.wake(now);
    }
    if (transfer_wakes_ <= now) {
      transfer_wakes_ = no_deadline;
      transfer_.taking.wake(now);
    }
    if (transfer_.giving.next_wake() <= now) transfer_.giving.wake(now);
    settle();
  }

  // ---- membership::effects ------------------------------------------------------------------------------------------

  void send(net::peer_id to, std::vector<std::byte> message) override { behind_.send(to, std::move(message)); }
  void dial(const std::string& address) override { fabric_->dial(address); }
  void drop(net::peer_id peer, const std::string& why) override {
    const auto at = links_.find(peer);
    if (at != links_.end()) fabric_->close(at->second, why);
  }
  bool persist(const membership::durable_record& record) override {
    behind_.persist(record);
    return true;
  }
  /// Without the lock.
  bool write(const std::vector<std::byte>& record) {
    const auto written = detail::write_member_record(storage_, options_.folder, record);
    if (!written) log_(severity::error, "the membership record cannot be written: " + written.error().text());
    return written.has_value();
  }
  void wake_at(time_point when) override { protocol_wakes_ = when; }
  void give_time(net::peer_id peer, duration how_long) override {
    const auto ns = static_cast<std::uint64_t>(how_long.count());
    post(peer, encode(membership::transfer_message{.kind = membership::transfer_kind::time_given, .newest = ns}), false);
  }
  void note(const membership::event& e) override {
    if (options_.journal) behind_.note(e);
  }
  void log(severity level, std::string_view text) override { log_(level, text); }

  // ---- membership::transfer_effects ---------------------------------------------------------------------------------

  void transfer_send(net::peer_id to, std::vector<std::byte> message) override { post(to, std::move(message), true); }
  void transfer_wake_at(time_point when) override { transfer_wakes_ = when; }
  void transfer_log(severity level, std::string_view text) override { log_(level, text); }

  result<void> take_transfer(net::peer_id from, std::span<const std::byte> message) {
    using kind = membership::transfer_kind;
    if (message.front() == std::byte{static_cast<std::uint8_t>(kind::ask_time)}) {
      CAUSEWAY_ASSIGN(const auto m, membership::decode_transfer(message));
      const auto most = static_cast<std::uint64_t>(duration::max().count());
      protocol_.asks_for_time(from, duration{static_cast<duration::rep>(std::min(m.newest, most))}, fabric_->now());
      return {};
    }
    if (message.front() == std::byte{static_cast<std::uint8_t>(kind::time_given)}) {
      CAUSEWAY_TRY(membership::decode_transfer(message));
      time_given_ = time_given_ || from == protocol_.leader();
      return {};
    }
    return transfer_.message(from, message, fabric_->now());
  }

  /// Of many peers a newcomer has met only a few, and those who hold the state may be others.
  void dial_holders() {
    for (const auto& h : protocol_.now_what().holders) {
      if (!meets(h.peer) && !h.address.empty()) fabric_->dial(h.address);
    }
  }

  [[nodiscard]] std::vector<net::peer_id> holders() const {
    std::vector<net::peer_id> ids;
    for (const auto& h : protocol_.now_what().holders) ids.push_back(h.peer);
    return ids;
  }

  void record(membership::event e) {
    if (!options_.journal) return;
    e.peer = fabric_->id();
    e.at_time = fabric_->now();
    behind_.note(e);
  }

  // After every event: data of attempts that are over is refused, a fetch learns who can help, the next wake-up is set.
  void settle() {
    if (behind_.must_resign()) protocol_.resign(fabric_->now());
    const auto& s = protocol_.now_what();
    const bool goal_moved = transfer_.taking.goal().root != s.hash;  // then these hold something else
    if (transfer_.taking.state() == membership::fetcher::status::running && s.changes != seen_changes_ && !goal_moved) {
      dial_holders();
      transfer_.taking.holders(holders(), fabric_->now());
    }
    seen_changes_ = s.changes;
    using kind = membership::situation::kind;
    const bool open = s.is == kind::exchange || s.is == kind::adopt || s.is == kind::committing;
    const std::uint32_t epoch = open ? s.current.at.wire() : last_epoch_ + 1;
    if (s.is == kind::exchange) last_epoch_ = epoch;
    if (epoch > cancelled_before_) {
      cancelled_before_ = epoch;
      fabric_->cancel_before(epoch);
    }
    fabric_->wake_at(std::min({protocol_wakes_, transfer_wakes_, transfer_.giving.next_wake()}));
  }

  std::shared_ptr<net::fabric> fabric_;
  io::any_storage storage_;
  member_options options_;
  log_sink log_;
  detail::write_behind behind_;
  membership::protocol protocol_;
  membership::state_transfer transfer_;
  std::map<net::peer_id, net::peer_index> links_;
  std::map<net::peer_index, net::peer_id> peers_;
  std::optional<std::uint64_t> offered_;
  std::string refused_;  // the last address that could not be reached
  time_point protocol_wakes_ = no_deadline;
  time_point transfer_wakes_ = no_deadline;
  std::uint64_t seen_changes_ = 0;
  bool time_given_ = false;
  std::uint32_t last_epoch_ = 0;
  std::uint32_t cancelled_before_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_MEMBER_CONTROL_HPP

// ---- causeway/train/view_transport.hpp ----
#ifndef CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP
#define CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP

// The peers of one attempt at a round as a Transport that remembers who kept it waiting: when the exchange fails, the
// membership asks it whom to suspect.

namespace causeway::inline CAUSEWAY_ABI::detail {

/// Ranks whose messages did not come or were not taken, oldest first.
struct suspicion {
  std::vector<net::peer_index> ranks;

  void add(net::peer_index rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
};

/// Models Transport. Threading: as net::link_transport.
class view_transport {
 public:
  view_transport(net::link_transport links, std::shared_ptr<suspicion> suspects)
      : links_{std::move(links)}, suspects_{std::move(suspects)} {}

  [[nodiscard]] net::peer_index self() const noexcept { return links_.self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return links_.size(); }

  net::operation send(net::peer_index to, const net::message_id& id, std::span<const std::byte> bytes) {
    return remember(links_.send(to, id, bytes), to);
  }
  net::operation receive(net::peer_index from, const net::message_id& id, std::span<std::byte> buffer) {
    return remember(links_.receive(from, id, buffer), from);
  }

  result<std::size_t> wait(net::operation op, time_point deadline) {
    const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o.first == op; });
    const net::peer_index peer = found == open_.end() ? self() : found->second;
    if (found != open_.end()) {
      *found = open_.back();
      open_.pop_back();
    }
    auto outcome = links_.wait(op, deadline);
    if (!outcome && peer != self()) suspect(peer, outcome.error().code, deadline);
    return outcome;
  }

  [[nodiscard]] bool done(net::operation op) const { return links_.done(op); }
  [[nodiscard]] traffic stats() const { return links_.stats(); }

 private:
  net::operation remember(net::operation op, net::peer_index peer) {
    open_.emplace_back(op, peer);
    return op;
  }

  // After the first failure a collective cancels what is left with a deadline in the past: that says nothing about anybody.
  void suspect(net::peer_index peer, errc code, time_point deadline) {
    const bool overdue = code == errc::timeout && deadline != time_point{};
    const bool wrong = code == errc::protocol || code == errc::wrong_parent || code == errc::too_large;
    if (code == errc::peer_lost || overdue || wrong) suspects_->add(peer);
  }

  net::link_transport links_;
  std::shared_ptr<suspicion> suspects_;
  std::vector<std::pair<net::operation, net::peer_index>> open_;
};
static_assert(net::Transport<view_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_VIEW_TRANSPORT_HPP

// ---- causeway/train/entered_attempt.hpp ----
#ifndef CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP
#define CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP

// The attempt at a round that a member was let into: connects it to the others, says how long the exchange may take, and,
// when it failed, whose fault that was as far as this peer has seen it.

namespace causeway::inline CAUSEWAY_ABI::detail {

/// One at a time, again and again. Threading: the trainer's thread.
class entered_attempt {
 public:
  entered_attempt(std::shared_ptr<net::fabric> fabric, member_control& control, const net::arrival_options& exchange)
      : owned_{std::move(fabric)},
        fabric_{*owned_},
        control_{control},
        first_patience_{exchange.cap},
        exchange_times_{without_cap(exchange)} {}

  [[nodiscard]] const std::optional<membership::ballot>& at() const noexcept { return at_; }
  [[nodiscard]] const membership::view& view() const noexcept { return view_; }

  void begin(membership::ballot at) noexcept { at_ = at; }
  void end() noexcept { at_.reset(); }

  /// `bytes`: what is exchanged, at least. None if a member of the view is out of reach: that is reported, and the
  /// situation changes.
  result<std::optional<round_entry>> enter(const membership::situation& s, std::size_t bytes) {
    view_ = s.current;
    at_ = view_.at;
    entered_at_ = now();
    suspects_ = std::make_shared<suspicion>();
    CAUSEWAY_ASSIGN(const bool connected, connect(s));
    if (!connected) {
      end();
      return std::optional<round_entry>{};
    }
    const net::peer_index rank = *view_.rank_of(fabric_.id());
    round_entry e;
    e.round = view_.round;
    e.parent = view_.parent;
    e.attempt = view_.at.wire();
    e.deadline = entered_at_ + exchange_patience(bytes);
    e.empty = view_.total() == 0;
    e.share = e.empty ? 0.0 : static_cast<double>(view_.members[rank].samples) / static_cast<double>(view_.total());
    std::vector<net::peer_index> links;
    fabric_.locked([&] { links = e.empty ? std::vector<net::peer_index>{0} : control_.links_of(view_); });
    transport_ = net::any_transport{
        view_transport{net::link_transport{owned_, std::move(links), e.empty ? 0 : rank, view_.at.wire()}, suspects_}};
    e.transport = &transport_;
    fabric_.locked([&] { control_.exchanging(!e.empty && view_.members.size() > 1); });  // alone the line is free
    received_before_ = fabric_.stats().bytes_received;
    return std::optional{e};
  }

  /// The exchange went through: what came in for it, in bytes. 0 where it says nothing of the lines, as alone.
  std::uint64_t exchanged() {
    overdue_.reset();
    if (view_.members.size() < 2) return 0;
    exchange_times_.observe(now() - entered_at_);
    return fabric_.stats().bytes_received - received_before_;
  }
  [[nodiscard]] time_point entered_at() const noexcept { return entered_at_; }

  /// Whether another attempt, with other peers, may cure what the exchange failed with.
  [[nodiscard]] bool may_try_again(const error& why) { return of_the_network(why.code) || of_a_contribution(why); }

  /// Tells the leader that this peer's part failed, and ends. What is said of it.
  std::string failed(const error& why) {
    const std::vector<net::peer_id> suspects = suspected(why);
    if (why.code == errc::timeout) overdue_ = now() - entered_at_;
    fabric_.locked([&] { control_.failed(*at_, why.code, suspects); });
    end();
    std::string of = suspects.empty() ? "" : ", because of";
    for (const net::peer_id id : suspects) of += " peer " + std::to_string(id);
    return "the exchange failed" + of + " (" + why.text() + "); it will be run again with those who are left";
  }

  void forget_overdue() noexcept { overdue_.reset(); }
  /// The exchange failed for everybody: if it was waited for in vain, the deadline was too early.
  void nobody_was_quicker() {
    if (overdue_) exchange_times_.overdue(*overdue_);
    overdue_.reset();
  }

 private:
  [[nodiscard]] time_point now() const {
    time_point t;
    fabric_.locked([&] { t = fabric_.now(); });
    return t;
  }

  static net::arrival_options without_cap(net::arrival_options o) {
    o.cap = std::chrono::hours{24};
    return o;
  }

  // Twice what it should take: more peers than the last time, or a line that others use as well, are no failure. The first
  // one is given a rate that hardly any line is below.
  [[nodiscard]] duration exchange_patience(std::size_t bytes) const {
    if (exchange_times_.count() > 0) return 2 * exchange_times_.patience();
    const std::chrono::duration<double> slowest{2.0 * static_cast<double>(bytes) / slow_line};
    return first_patience_ + std::chrono::duration_cast<duration>(slowest);
  }
  [[nodiscard]] duration connect_patience() const {
    return connect_times_.count() > 0 ? connect_times_.patience() : std::chrono::seconds{10};
  }

  // Connects to those of the view whom this peer has no connection to. False: somebody is out of reach, and reported.
  result<bool> connect(const membership::situation& s) {
    if (s.current.total() == 0) return true;  // nothing will be exchanged
    std::vector<net::peer_id> missing;
    fabric_.locked([&] {
      control_.dial_missing(s.current);
      missing = control_.missing_of(s.current);
    });
    if (missing.empty()) return true;
    const time_point begin = now();
    const auto over = [&] {  // asked after every event: looks at everybody only when the last of them has come
      while (!missing.empty() && control_.meets(missing.back())) missing.pop_back();
      if (missing.empty()) missing = control_.missing_of(s.current);
      return missing.empty() || control_.dialled_in_vain() || control_.now_what().current.at != s.current.at;
    };
    CAUSEWAY_ASSIGN(const bool in_time, fabric_.block(over, begin + connect_patience()));
    if (missing.empty()) {
      connect_times_.observe(now() - begin);
      return true;
    }
    if (!in_time) connect_times_.overdue(now() - begin);
    fabric_.locked([&] {  // who was not met before somebody else ended the attempt did nothing wrong
      if (control_.now_what().current.at != s.current.at) return;
      control_.failed(s.current.at, errc::unreachable, control_.missing_of(s.current));
    });
    return false;
  }

  /// Whose messages did not come or cannot be used, as far as this peer has seen that itself.
  [[nodiscard]] std::vector<net::peer_id> suspected(const error& why) const {
    std::vector<net::peer_id> suspects;
    if (why.culprit < view_.members.size()) suspects.push_back(view_.members[why.culprit].peer);
    for (const net::peer_index rank : suspects_->ranks) {
      const net::peer_id id = view_.members[rank].peer;
      if (!membership::contains(suspects, id)) suspects.push_back(id);
    }
    return suspects;
  }

  static bool of_the_network(errc code) {
    return code == errc::peer_lost || code == errc::timeout || code == errc::cancelled || code == errc::wrong_parent ||
           code == errc::protocol || code == errc::too_large || code == errc::corrupt;
  }

  /// What some peer put into this exchange: the leader finds out who. Where this peer cannot say that it was another, it
  /// may be all of them, and then it does not end: so often and no more.
  [[nodiscard]] bool of_a_contribution(const error& why) {
    if (!at_ || (why.code != errc::non_finite && why.code != errc::invalid_argument)) return false;
    if (!suspected(why).empty()) return true;
    if (std::exchange(refused_round_, view_.round) != view_.round) refusals_ = 0;
    return ++refusals_ <= times_refused;
  }

  static constexpr std::uint32_t times_refused = 16;  // exchanges of one round
  static constexpr double slow_line = 1.25e6;         // bytes per second

  std::shared_ptr<net::fabric> owned_;
  net::fabric& fabric_;
  member_control& control_;
  std::optional<membership::ballot> at_;  // entered, and neither voted nor failed yet
  membership::view view_;
  std::shared_ptr<suspicion> suspects_ = std::make_shared<suspicion>();
  net::any_transport transport_;
  time_point entered_at_;
  std::optional<duration> overdue_;  // how long the failed exchange was waited for
  std::uint64_t received_before_ = 0;
  std::uint64_t refused_round_ = 0;
  std::uint32_t refusals_ = 0;  // of what was exchanged in that round
  duration first_patience_;
  net::arrival_statistics exchange_times_,
      connect_times_{{.floor = std::chrono::seconds{2}, .cap = std::chrono::minutes{5}}};
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_ENTERED_ATTEMPT_HPP

// ---- causeway/train/held_samples.hpp ----
#ifndef CAUSEWAY_TRAIN_HELD_SAMPLES_HPP
#define CAUSEWAY_TRAIN_HELD_SAMPLES_HPP

// The samples that a member was given, as of the round whose state it holds, and which of them it handed to its trainer. A
// newer commit may have given them to somebody else.

namespace causeway::inline CAUSEWAY_ABI {

/// Thread safety: none; the trainer's thread, which hands in the newest ledger under the fabric's lock.
class held_samples {
 public:
  explicit held_samples(net::peer_id self) : self_{self} {}

  /// The peer holds the state of another round.
  void begin_round(const membership::ledger& samples) { as_of_ = samples; }
  /// The same, where the others have gone on since: the ledger after `record`, if this one is that of the round before it.
  void follow(const membership::commit_record& record) {
    if (!as_of_.fits(record)) return;
    membership::ledger after = as_of_;
    after.apply(record);
    if (after.hash() == record.ledger) as_of_ = std::move(after);
  }

  /// Whether the first `count` of them are this peer's after a newer commit as well.
  [[nodiscard]] bool still_ours(const membership::ledger& newest, std::uint64_t count) const {
    return membership::still_held(as_of_, newest, self_, count) == count;
  }

  /// At most `count` numbers after the first `skipped`; none where others were given them by `newest`: training on them
  /// would be in vain.
  [[nodiscard]] std::vector<std::uint64_t> draw(const membership::ledger& newest, std::uint64_t skipped,
                                                std::uint64_t count) {
    if (drawn_.size() > skipped) drawn_.erase(drawn_.begin(), drawn_.end() - static_cast<std::ptrdiff_t>(skipped));
    auto numbers = as_of_.take(self_, skipped, count);
    if (!still_ours(newest, skipped + numbers.size())) return {};
    drawn_.insert(drawn_.end(), numbers.begin(), numbers.end());
    return numbers;
  }

  /// What was drawn since the last commit, and perhaps some before it.
  [[nodiscard]] std::span<const std::uint64_t> drawn() const noexcept { return drawn_; }
  /// Whether every sample of the run is in a commit.
  [[nodiscard]] bool complete() const noexcept { return as_of_.complete(); }

 private:
  net::peer_id self_;
  membership::ledger as_of_;
  std::vector<std::uint64_t> drawn_;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_HELD_SAMPLES_HPP

// ---- causeway/train/member_waits.hpp ----
#ifndef CAUSEWAY_TRAIN_MEMBER_WAITS_HPP
#define CAUSEWAY_TRAIN_MEMBER_WAITS_HPP

// How a member's trainer waits for the membership: a wait that gets long says so, and one that is in vain ends.

namespace causeway::inline CAUSEWAY_ABI::detail {

/// For the trainer's thread. All that it is given must outlive it.
class member_waits {
 public:
  using situation = membership::situation;

  member_waits(net::fabric& fabric, member_control& control, const member_options& options, log_sink log)
      : fabric_{&fabric}, control_{&control}, options_{&options}, log_{std::move(log)}, say_at_{options.say_after} {}

  template <class F>
  void locked(F&& what) const {
    fabric_->locked(std::forward<F>(what));
  }

  [[nodiscard]] time_point time_now() const {
    time_point now;
    locked([&] { now = fabric_->now(); });
    return now;
  }

  [[nodiscard]] situation look() const {
    situation now;
    locked([&] { now = control_->now_what(); });
    return now;
  }

  template <class Done>
  result<situation> await(Done&& done) {
    for (;;) {
      situation now;
      const auto over = [&] {
        if (!done(control_->now_what())) return false;
        now = control_->now_what();
        return true;
      };
      CAUSEWAY_ASSIGN(const bool happened, block_a_while(over));
      if (happened) return now;
      CAUSEWAY_TRY(give_up_if_alone());
    }
  }

  // A wait that gets long says so, ever more rarely; also one of many short ones that come to nothing.
  template <class Over>
  result<bool> block_a_while(const Over& over, duration most = duration::max()) {
    const time_point begin = time_now();
    most = std::min(most, say_at_ - waited_);
    if (options_->patience > duration{0}) most = std::min(most, options_->patience);
    const auto outcome = fabric_->block(over, begin + most);
    waited_ += time_now() - begin;
    if (outcome && !*outcome && waited_ >= say_at_) {
      say_at_ = 2 * waited_;
      say_waiting();
    }
    return outcome;
  }

  [[nodiscard]] std::string describe() const {
    std::string text;
    locked([&] { text = control_->describe(); });
    return text + fabric_->describe_waits();
  }

  void say_waiting() const {
    const situation s = look();
    const std::string since = "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: ";
    if (!settled_in(s.is) || s.is == situation::kind::fetch) {
      log_(severity::warning, since + std::string{to_string(s.is)} + (s.why.empty() ? "" : ", " + s.why));
    }
    log_(severity::info, since + describe());
  }

  // Progress: the next wait is another one.
  void stop_waiting() {
    waited_ = duration{0};
    say_at_ = options_->say_after;
  }

  // A newcomer, or who comes back to a run that has done without it, could wait for ever for peers that have ended. Who was
  // in waits longer: what it has trained is worth something, if the others are only cut off.
  result<void> give_up_if_alone() const {
    std::optional<error> why;
    locked([&] { why = control_->alone_too_long(options_->patience * (inside_ ? 10 : 1)); });
    return why ? result<void>{*why} : result<void>{};
  }

  result<void> await_change(const situation& before) {
    CAUSEWAY_TRY(await([&](const situation& s) { return s.changes != before.changes; }));
    return {};
  }

  // False: something else is to be done first. Nobody wakes this peer for that, so it looks.
  result<bool> await_change_or_call(const situation& before) {
    if (!options_->called_away) {
      CAUSEWAY_TRY(await_change(before));
      return true;
    }
    for (;;) {
      if (options_->called_away()) return false;
      const auto over = [&] { return control_->now_what().changes != before.changes || options_->called_away(); };
      CAUSEWAY_ASSIGN(const bool happened, block_a_while(over, look_around));
      if (happened) return look().changes != before.changes;
      CAUSEWAY_TRY(give_up_if_alone());
    }
  }

  static bool settled_in(situation::kind is) { return is != situation::kind::joining && is != situation::kind::no_quorum; }

  /// This peer has had a committed state: it waits for longer before it gives up.
  void note_inside() noexcept { inside_ = true; }

 private:
  static constexpr duration look_around = std::chrono::milliseconds{100};

  net::fabric* fabric_;
  member_control* control_;
  const member_options* options_;
  log_sink log_;
  bool inside_ = false;
  duration waited_{0};  // since the last progress
  duration say_at_;     // of waited_
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_MEMBER_WAITS_HPP

// ---- causeway/train/spare_round.hpp ----
#ifndef CAUSEWAY_TRAIN_SPARE_ROUND_HPP
#define CAUSEWAY_TRAIN_SPARE_ROUND_HPP

// A round in memory of its own, beside the shared state: what a peer voted for before it was restarted. Others may need it.

namespace causeway::inline CAUSEWAY_ABI {

struct spare_round {
  std::uint64_t round = 0;
  std::deque<std::vector<std::byte>> memory;
  membership::state_image image;

  /// From `store`, in pieces as large as those of `like`. Null if it is not there whole, with that hash.
  static std::unique_ptr<spare_round> load(membership::round_store& store, std::uint64_t round, std::uint64_t hash,
                                           std::span<const std::span<std::byte>> like, thread_pool* pool) {
    auto copy = std::make_unique<spare_round>();
    copy->round = round;
    std::vector<std::span<std::byte>> parts;
    for (const auto part : like) parts.emplace_back(copy->memory.emplace_back(part.size()));
    if (!store.load(round, hash, parts)) return nullptr;
    for (const auto part : parts) copy->image.add(part);
    return copy->image.root(pool) == hash ? std::move(copy) : nullptr;
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_SPARE_ROUND_HPP

// ---- causeway/train/state_fetch.hpp ----
#ifndef CAUSEWAY_TRAIN_STATE_FETCH_HPP
#define CAUSEWAY_TRAIN_STATE_FETCH_HPP

// How a member's trainer gets the others' state: whole, from whoever holds it; then by doing again, from their means, the
// rounds that were committed meanwhile; and where rounds are too quick for both, by asking for one that lasts long enough.

namespace causeway::inline CAUSEWAY_ABI::detail {

/// For the trainer's thread. All that it is given must outlive it.
class state_fetch {
 public:
  using situation = membership::situation;

  static constexpr double slow_line = 1.25e6;  ///< bytes per second, where nothing was measured yet

  state_fetch(member_control& control, member_waits& waits, const member_options& options, log_sink log)
      : control_{&control}, waits_{&waits}, options_{&options}, log_{std::move(log)} {}

  /// What is fetched, and where it goes.
  void into(shared_state& state, membership::state_image& image, thread_pool* pool) {
    state_ = &state;
    image_ = &image;
    pool_ = pool;
  }

  // Rounds follow each other more quickly than this peer can fetch a state: it asks for one that lasts as long as that
  // takes, and sends for nothing meanwhile. Nobody who leads has time for it: it tries all the same, ever more rarely.
  result<void> wait_for_time(unsigned in_vain) {
    const duration needs = takes(image_->bytes());
    const time_point give_up = waits_->time_now() + (needs + heartbeats_to_wait * options_->protocol.heartbeat) * in_vain;
    bool over = false;
    while (!over && waits_->time_now() < give_up) {
      waits_->locked([&] { control_->ask_for_time(needs); });
      const auto answered = [&] { return control_->time_was_given() || control_->now_what().is != situation::kind::fetch; };
      CAUSEWAY_ASSIGN(over, waits_->block_a_while(answered, heartbeats_to_wait * options_->protocol.heartbeat));
      CAUSEWAY_TRY(waits_->give_up_if_alone());
    }
    return {};
  }

  static duration duration_of(double s) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>{std::min(s, 1e6)});
  }

  [[nodiscard]] duration takes(std::uint64_t bytes) const {
    return duration_of(static_cast<double>(bytes) / (bytes_per_s_ > 0 ? bytes_per_s_ : slow_line));
  }

  /// So many bytes came since `begin`: for what is asked of the leader.
  void note_rate(time_point begin, std::uint64_t bytes) {
    const double took = seconds(waits_->time_now() - begin);
    if (took > 0 && bytes > 0) bytes_per_s_ = static_cast<double>(bytes) / took;
  }

  // Blocks until the state is in the staging memory. A holder that lost it ends the wait, and a newer commit does where
  // nobody keeps the state.
  result<bool> receive(std::uint64_t round, std::uint64_t hash, const situation& asked) {
    const time_point begin = waits_->time_now();
    const bool keep = state_->replay && asked.is == situation::kind::fetch;
    waits_->locked([&] { control_->start_fetch(round, hash, *image_, keep); });
    const auto in_vain = [&](const situation& s) {
      const bool moved = s.hash != hash || s.is != asked.is;
      return moved && !(s.is == situation::kind::fetch && control_->kept().kept());
    };
    CAUSEWAY_ASSIGN(const bool whole, finish_fetch(begin, in_vain));
    if (whole) return true;
    std::optional<error> why;
    waits_->locked([&] {
      if (control_->fetch().state() == membership::fetcher::status::failed) why = control_->fetch().failure();
      control_->stop_fetch();
      control_->kept().end();
    });
    if (!why) return false;
    if (why->code == errc::wrong_model) return *why;
    log_(severity::debug, "the state of round " + std::to_string(round) + " could not be fetched yet: " + why->text());
    CAUSEWAY_TRY(waits_->block_a_while([&] { return control_->now_what().changes != asked.changes; }, retry_fetch));
    CAUSEWAY_TRY(waits_->give_up_if_alone());
    return false;
  }

  /// Puts what `receive` has brought into the image.
  result<void> put() {
    result<void> outcome;
    waits_->locked([&] { outcome = control_->fetch().commit(*image_, pool_); });
    return outcome;
  }

  /// Does `round` again on top of the one before. `late`: this peer has come too late before, so it asks the leader for the
  /// time that it needs. False: nobody has what it takes.
  result<bool> replay(std::uint64_t round, bool late) {
    CAUSEWAY_ASSIGN(const auto root, root_of_mean(round));
    if (!root || *root == 0) return root.has_value();
    std::vector<float> mean(state_->parts.front().size() / sizeof(float));
    membership::state_image image;
    image.add(std::as_writable_bytes(std::span{mean}));
    (void)image.root(pool_);
    const time_point begin = waits_->time_now();
    waits_->locked([&] { control_->start_mean(round, *root, image); });
    CAUSEWAY_ASSIGN(const bool whole, finish_mean(round, begin, late));
    result<void> put;
    waits_->locked([&] {
      if (whole) put = control_->fetch().commit(image, pool_);
      control_->stop_fetch();
    });
    if (!whole || !put) return false;
    return state_->replay(mean).has_value();
  }

 private:
  // Whether all of it came, and not before `in_vain` said so.
  template <class InVain>
  result<bool> finish_fetch(time_point begin, const InVain& in_vain) {
    using status = membership::fetcher::status;
    const auto over = [&](const situation& s) { return control_->fetch().state() != status::running || in_vain(s); };
    const auto outcome = waits_->await(over);
    bool whole = false;
    membership::fetch_progress came;
    waits_->locked([&] {
      came = control_->fetch().progress();
      whole = control_->fetch().state() == status::complete;
      if (!outcome) control_->stop_fetch();
    });
    if (!outcome) return outcome.error();
    note_rate(begin, came.bytes_done);
    if (came.bytes_per_s > 0) bytes_per_s_ = came.bytes_per_s;
    return whole;
  }

  // Each commit while this mean comes adds another one to what is missing.
  result<bool> finish_mean(std::uint64_t round, time_point begin, bool late) {
    for (bool runs = true; runs;) {
      const std::uint64_t newest = waits_->look().newest.round;
      if (late) ask_for_time(newest - round + 1);
      CAUSEWAY_ASSIGN(const bool whole, finish_fetch(begin, [&](const auto& s) { return s.newest.round != newest; }));
      if (whole) return true;
      waits_->locked([&] { runs = control_->fetch().state() == membership::fetcher::status::running; });
    }
    return false;
  }

  // For what is missing of the means of so many rounds, the first of which comes now. Waits for no answer.
  void ask_for_time(std::uint64_t rounds) {
    waits_->locked([&] {
      const std::uint64_t here = control_->fetch().progress().bytes_done;
      control_->ask_for_time(takes(rounds * state_->parts.front().size() - here));
    });
  }

  // Asked for until the round is over: its mean is told with its commit, or a little later.
  result<std::optional<std::uint64_t>> root_of_mean(std::uint64_t round) {
    std::optional<std::uint64_t> root;
    for (int i = 0; i < tries_for_means && !root; ++i) {
      bool kept = false;
      waits_->locked([&] {
        root = control_->kept().root_of(round);
        kept = control_->kept().kept();
        if (!root && kept) control_->kept().ask(round);
      });
      if (root || !kept) break;
      const auto told = [&] { return control_->kept().root_of(round).has_value() || !control_->kept().kept(); };
      CAUSEWAY_TRY(waits_->block_a_while(told, look_around * (1 << i)));
    }
    return root;
  }

  static constexpr duration look_around = std::chrono::milliseconds{100}, retry_fetch = std::chrono::milliseconds{500};
  static constexpr int heartbeats_to_wait = 5;
  static constexpr int tries_for_means = 6;

  member_control* control_;
  member_waits* waits_;
  const member_options* options_;
  log_sink log_;
  shared_state* state_ = nullptr;
  membership::state_image* image_ = nullptr;
  thread_pool* pool_ = nullptr;
  double bytes_per_s_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_STATE_FETCH_HPP

// ---- causeway/train/member.hpp ----
#ifndef CAUSEWAY_TRAIN_MEMBER_HPP
#define CAUSEWAY_TRAIN_MEMBER_HPP

// A peer of a run whose peers come and go: brings the membership's decisions, the transfer of state and the disk together
// with the trainer's thread. The decisions themselves are in membership/protocol.hpp; this is the part that waits.

namespace causeway::inline CAUSEWAY_ABI {

/// Models what training_context asks of a group, over any fabric. One per process and run. Made by `make`, before the
/// trainer; it must outlive the trainer's use of it. Threading: elastic_group's members from the trainer's thread;
/// `describe` and `rejected` from any.
///
/// Memory: one staging copy of the shared state while state is fetched; while others fetch it for longer than a round, see
/// membership::kept_states. Disk: the shared state of two rounds, and a record
/// of a few hundred bytes.
class member final : public elastic_group {
 public:
  using situation = membership::situation;

  /// `fabric` must have the identity that `member_identity` gave for this storage.
  static result<std::shared_ptr<member>> make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                              member_options options, log_sink log = {}) {
    CAUSEWAY_ASSIGN(auto control, member_control::make(fabric, storage, options, log));
    return std::shared_ptr<member>{
        new member{std::move(fabric), std::move(storage), std::move(options), std::move(log), std::move(control)}};
  }

  ~member() override { control_->detach(); }

  [[nodiscard]] std::uint64_t identity() const override { return fabric_->id(); }
  [[nodiscard]] std::uint64_t round() const override { return held_.round; }
  [[nodiscard]] std::uint64_t parent() const override { return held_.chain(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return held_.state; }
  [[nodiscard]] std::uint64_t contributed() const override { return contributed_; }

  result<void> open(shared_state state, thread_pool& pool) override {
    state_ = std::move(state);
    pool_ = &pool;
    for (const auto part : state_.parts) image_.add(part);
    fetch_.into(state_, image_, pool_);
    const auto stored = load_stored();
    const std::uint64_t root = hash_image();
    control_->attach();
    locked([&] { control_->begin(stored, root); });
    CAUSEWAY_TRY(take_newest());
    waits_.note_inside();
    return {};
  }

  result<round_entry> enter(std::uint64_t samples) override {
    uncommitted_ = samples;
    for (;;) {
      situation now = waits_.look();
      if (now.is == situation::kind::idle) {
        if (now.newest.round > held_.round) {  // committed without us, with the state that we hold
          (void)keeps_progress();
          hold(now.newest);
          if (samples > 0 && uncommitted_ == 0) return lose_progress();
        }
        if (budget_used()) return fail(errc::cancelled, "round", "every sample of the run is in a commit");
        passing("before_ready");
        locked([&] {
          control_->record_trained(held_, samples_.drawn(), uncommitted_);
          control_->ready(held_.round + 1, held_.chain(), uncommitted_);
          now = control_->now_what();  // with the same lock: an attempt may begin and be called off before the next
        });
      }
      switch (now.is) {
        case situation::kind::exchange: {
          CAUSEWAY_ASSIGN(const auto entered, entry(now));
          if (entered) return *entered;
          break;
        }
        case situation::kind::adopt: return fail(errc::cancelled, "round", "others have finished it; taking it over");
        case situation::kind::fetch: {
          CAUSEWAY_ASSIGN(const bool held, fetch(now, keeps_progress()));
          if (held && options_.enters_afresh) return fail(errc::cancelled, "round", "others have finished it");
          if (held && samples > 0 && uncommitted_ == 0) return lose_progress();
          break;
        }
        case situation::kind::failed:
        case situation::kind::left: return now.gone();
        default: {
          CAUSEWAY_ASSIGN(const bool changed, waits_.await_change_or_call(now));
          if (!changed) return fail(errc::cancelled, "round", "there is something to do first");
        }
      }
    }
  }

  [[nodiscard]] bool exchange_waits() const override { return waits_.look().is == situation::kind::exchange; }

  result<void> exchanged() override {
    passing("exchanged");
    fetch_.note_rate(attempt_.entered_at(), attempt_.exchanged());
    const auto copy = copy_for_others();
    bool in_time = false;
    locked([&] {
      control_->exchanging(false);
      in_time = control_->completed(attempt_.view().at);
      if (!in_time) return;
      control_->record_updates(attempt_.view());
      if (copy) control_->copied(copy);
      control_->withdraw();
    });
    in_step_ = in_step_ && !in_time;
    if (!in_time) return fail(errc::cancelled, "round", "the attempt was called off");
    return {};
  }

  void exchanged_mean(std::span<const float> mean) override {
    bool wanted = false;
    locked([&] { wanted = control_->keeps_means(); });
    mean_.reset();
    if (!wanted || mean.size_bytes() != state_.parts.front().size()) return;
    std::vector<float> row(mean.begin(), mean.end());
    membership::state_image image;
    image.add(std::as_writable_bytes(std::span{row}));
    (void)image.root(pool_);
    mean_ = membership::kept_bytes::copy_of(image);
    mean_of_ = attempt_.view().round;
  }

  result<verdict> settle(const result<void>& outcome, bool candidate) override {
    contributed_ = 0;
    attempt_.forget_overdue();
    if (!outcome) locked([&] { control_->exchanging(false); });
    if (outcome && candidate) {
      CAUSEWAY_TRY(vote(held_.round + 1));
    } else if (!outcome) {
      CAUSEWAY_TRY(report(outcome.error()));
    }
    return judge(outcome.has_value());
  }

  [[nodiscard]] bool can_sit_out() const override { return true; }

  result<verdict> sit_out(const error& why) override {
    contributed_ = uncommitted_ = 0;
    attempt_.forget_overdue();
    const std::uint32_t rounds = 1U << std::min(unusable_++, 4U);
    locked([&] {
      control_->exchanging(false);
      control_->unusable(attempt_.at().value_or(membership::ballot{}));
    });
    attempt_.end();
    if (unusable_ > times_unusable) {
      return fail(errc::non_finite, why.where,
                  why.message + ", " + std::to_string(unusable_) +
                      " times in a row: this peer ends. If it is the only one, look at its hardware; if others end so "
                      "too, lower the learning rate or lengthen its warm-up");
    }
    sits_out_until_ = held_.round + rounds;
    log_(severity::warning, "round " + std::to_string(held_.round + 1) + ": " + why.where + " is left out: " + why.message +
                                "; it takes the shared state over and trains again after " + std::to_string(rounds) +
                                (rounds == 1 ? " round" : " rounds"));
    return restore();
  }

  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override {
    if (held_.round < sits_out_until_) return {};
    return asked([&] { return samples_.draw(control_->ledger(), skipped, count); });
  }

  [[nodiscard]] bool budget_used() const override { return samples_.complete(); }

  /// Tells the others that this peer goes, so that they need not find out.
  void leave() override {
    locked([&] { control_->leave(); });
  }

  /// Whom this peer waits for, since when, and what happens next; one line each. From any thread.
  [[nodiscard]] std::string describe() const { return waits_.describe(); }

 private:
  member(std::shared_ptr<net::fabric> fabric, io::any_storage storage, member_options options, log_sink log,
         std::unique_ptr<member_control> control)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        log_{std::move(log)},
        control_{std::move(control)},
        waits_{*fabric_, *control_, options_, log_},
        fetch_{*control_, waits_, options_, log_},
        store_{std::move(storage), options_.folder + "/rounds"},
        samples_{fabric_->id()},
        attempt_{fabric_, *control_, options_.exchange} {}

  /// What it gives with the lock held.
  template <class F>
  auto asked(F&& what) const -> decltype(what()) {
    decltype(what()) answer{};
    locked([&] { answer = what(); });
    return answer;
  }

  // ---- an exchange --------------------------------------------------------------------------------------------------

  result<std::optional<round_entry>> entry(const situation& s) {
    in_vain_ = 0;
    excused_ = false;
    waits_.stop_waiting();
    attempt_.begin(s.current.at);
    passing("entered");
    return attempt_.enter(s, state_.parts.front().size());
  }

  // What is about to change and somebody is fetching; made without the lock: only this thread changes it.
  std::shared_ptr<const membership::kept_bytes> copy_for_others() {
    bool wanted = false;
    locked([&] { wanted = control_->needs_copy(); });
    return wanted ? membership::kept_bytes::copy_of(image_) : nullptr;
  }

  result<void> report(const error& why) {
    if (!attempt_.may_try_again(why)) return why;
    // Whether the attempt was called off, or this peer was asked to stop: then it must not try again.
    if (why.code == errc::cancelled) CAUSEWAY_TRY(fabric_->block([] { return false; }, waits_.time_now()));
    if (!attempt_.at()) return {};
    log_(severity::info, "round " + std::to_string(held_.round + 1) + ": " + attempt_.failed(why));
    return {};
  }

  // ---- a verdict ----------------------------------------------------------------------------------------------------

  // The vote promises that this peer holds the round, also after a crash: so it is written first. Where it was taken over,
  // this peer need not have held the one before: it may have been started just now.
  result<void> vote(std::uint64_t round) {
    const std::uint64_t root = hash_image();
    candidate_ = {round, root};
    passing("before_store");
    CAUSEWAY_TRY(store(candidate_.round, root));
    passing("stored");
    locked([&] {
      control_->offer(candidate_.round, image_);
      if (attempt_.at()) control_->voted(*attempt_.at(), candidate_.round, root);
    });
    attempt_.end();
    passing("voted");
    return {};
  }

  result<verdict> judge(bool voted) {
    if (std::exchange(lost_progress_, false)) return verdict::commit;
    for (;;) {
      const situation now = waits_.look();
      if (voted && now.newest.round >= candidate_.round && now.newest.state == candidate_.hash)
        return committed(now.newest);
      switch (now.is) {
        case situation::kind::adopt:
          CAUSEWAY_TRY(adopt(now, voted));
          voted = true;
          break;
        case situation::kind::fetch: {
          const std::uint64_t ours = now.newest.contribution_of(identity());
          const bool keep = !voted && ours == 0 && keeps_progress();
          CAUSEWAY_ASSIGN(const bool held, fetch(now, keep));
          if (!held) break;
          contributed_ = ours;
          return keep ? verdict::retry : verdict::commit;
        }
        case situation::kind::exchange:
          if (!voted) return verdict::retry;
          // The vote did not count, and what it was for is in memory: this peer cannot begin again, the others can.
          locked([&] { control_->failed(now.current.at, errc::wrong_parent, {identity()}); });
          CAUSEWAY_TRY(waits_.await_change(now));
          break;
        case situation::kind::failed:
        case situation::kind::left: return now.gone();
        case situation::kind::idle:
        case situation::kind::gathering:
          // The vote came too late for its attempt, and another was not for this state. What is in memory is nobody's now.
          if (voted) {
            locked([&] { control_->holds(candidate_.round, candidate_.hash); });
            if (waits_.look().changes == now.changes) CAUSEWAY_TRY(waits_.await_change(now));
            break;
          }
          [[fallthrough]];
        default:
          if (!voted && budget_used()) {  // nothing is left to be exchanged; others did what this peer had begun
            state_.adopted({});
            return verdict::commit;
          }
          if (!voted) {  // `enter` waits for the next attempt
            attempt_.nobody_was_quicker();
            return verdict::retry;
          }
          CAUSEWAY_TRY(waits_.await_change(now));
      }
    }
  }

  // Others hold a candidate that may have been chosen: this peer votes for it too, once it has it.
  result<void> adopt(const situation& now, bool voted) {
    if (!voted || now.hash != candidate_.hash) {
      CAUSEWAY_ASSIGN(const bool held, fetch(now, false));
      if (!held) return {};
    }
    attempt_.begin(now.current.at);
    CAUSEWAY_TRY(vote(now.current.round));
    return waits_.await_change(now);
  }

  verdict committed(const membership::commit_record& record) {
    contributed_ = record.round == candidate_.round ? record.contribution_of(identity()) : uncommitted_;
    hold(record);
    locked([&] { control_->kept().end(); });
    (void)fabric_->block([&] { return control_->written(); }, no_deadline);  // a crash must not take back what is told
    passing("committed");
    return verdict::commit;
  }

  // `samples`: the ledger after it, where time has passed since it was the newest: the others may have gone on meanwhile.
  void hold(const membership::commit_record& record, const std::optional<membership::ledger>& samples = {}) {
    waits_.stop_waiting();
    held_ = record;
    in_step_ = true;
    if (contributed_ > 0) unusable_ = 0;
    const auto mean = mean_of_ == record.round && !record.contributions.empty() ? std::exchange(mean_, nullptr) : nullptr;
    locked([&] {
      if (mean || record.contributions.empty()) control_->add_mean(record.round, mean);
      if (samples) {
        samples_.begin_round(*samples);
      } else if (control_->now_what().newest.round == held_.round) {
        samples_.begin_round(control_->ledger());
      } else {
        samples_.follow(held_);
      }
      control_->record_held(held_);
      if (spare_ && spare_->round <= held_.round) control_->withdraw_spare(spare_->round);
      control_->offer(held_.round, image_);
    });
    if (spare_ && spare_->round <= held_.round) spare_.reset();
  }

  // Whether what was trained since the last commit may still be contributed: not if somebody else was given its samples.
  bool keeps_progress() {
    if (!asked([&] { return samples_.still_ours(control_->ledger(), uncommitted_); })) uncommitted_ = 0;
    return uncommitted_ > 0;
  }

  // The step under way ends with the state of the others.
  error lose_progress() {
    state_.adopted({});
    lost_progress_ = true;
    return fail(errc::cancelled, "round", "others were given the samples that this peer had");
  }

  // ---- state --------------------------------------------------------------------------------------------------------

  /// The shared state as it was committed: what is in memory may be spoilt, too.
  result<verdict> restore() {
    const std::uint64_t root = hash_image();
    if (root == held_.state) {
      state_.adopted({});
      return verdict::commit;
    }
    locked([&] {
      control_->withdraw();
      control_->holds(held_.round, root);  // not the committed state: so this peer is told who has it
    });
    in_step_ = false;
    CAUSEWAY_TRY(take_newest());
    return verdict::commit;
  }

  /// Returns when this peer holds the newest committed state, and nothing else.
  result<void> take_newest() {
    for (;;) {
      CAUSEWAY_ASSIGN(const situation now,
                      waits_.await([](const situation& s) { return detail::member_waits::settled_in(s.is); }));
      if (now.is == situation::kind::failed || now.is == situation::kind::left) return now.gone();
      if (now.is == situation::kind::fetch) {
        CAUSEWAY_TRY(fetch(now, false));
      } else if (now.is == situation::kind::adopt) {
        CAUSEWAY_TRY(adopt(now, false));
      } else {
        hold(now.newest);
        return {};
      }
    }
  }

  std::uint64_t hash_image() {
    image_.touch();
    return image_.root(pool_);
  }

  result<void> store(std::uint64_t round, std::uint64_t root) {
    if (options_.store_every == 0 || round % options_.store_every != 0) return {};
    std::vector<std::byte> record;
    locked([&] { record = control_->record_of(round, root); });
    return store_.save(options_.protocol.run, round, root, state_.parts, record);
  }

  // What the last process left: the newest commit that it knew goes into memory, a vote after it is kept beside it.
  std::optional<member_control::named_round> load_stored() {
    const auto committed = control_->remembered();
    const auto vote = control_->voted_for();
    if (vote) load_spare(*vote);
    if (!committed || !from_disk(committed->round, committed->hash)) return std::nullopt;
    state_.adopted({});
    return committed;
  }

  bool from_disk(std::uint64_t round, std::uint64_t hash) {
    const auto loaded = store_.load(round, hash, state_.parts);
    if (loaded) return hash_image() == hash;
    if (loaded.error().code == errc::corrupt)
      log_(severity::warning, "passing over a stored round: " + loaded.error().text());
    return false;
  }

  void load_spare(const member_control::named_round& vote) {
    spare_ = spare_round::load(store_, vote.round, vote.hash, state_.parts, pool_);
    if (spare_) locked([&] { control_->offer_spare(spare_->round, spare_->image); });
  }

  /// Replaces the shared state by the one that `now` asks for. `keep`: local progress stays on top of it. False: the
  /// situation moved on before it was whole, and nothing was changed.
  result<bool> fetch(const situation& asked, bool keep) {
    const bool candidate = asked.is == situation::kind::adopt;
    const bool late = !candidate && in_vain_++ >= quick_tries;
    if (late && !follows()) CAUSEWAY_TRY(fetch_.wait_for_time(in_vain_));
    const situation now = waits_.look();
    if (now.is != asked.is || (candidate && now.hash != asked.hash)) return false;
    const std::uint64_t round = candidate ? now.current.round : now.newest.round;
    std::optional<membership::ledger> samples;
    locked([&] {
      if (control_->now_what().newest.round == now.newest.round) samples = control_->ledger();
    });
    if (!samples) return false;
    if (hash_image() != now.hash) {
      if (!candidate && follows()) {
        CAUSEWAY_TRY(follow(keep, late));
        return held_.round == waits_.look().newest.round;
      }
      locked([&] {
        control_->forget_means();
        control_->withdraw();
      });
      const std::vector<float> previous = keep ? shared_parameters() : std::vector<float>{};
      if (!from_disk(round, now.hash)) {
        passing("fetching");
        const time_point begin = waits_.time_now();
        CAUSEWAY_ASSIGN(const bool whole, fetch_.receive(round, now.hash, now));
        if (!whole) {
          excuse(waits_.time_now() - begin);
          if (in_step_) locked([&] { control_->offer(held_.round, image_); });  // it was not touched
          return false;
        }
        passing("fetched");
        CAUSEWAY_TRY(fetch_.put());
      }
      state_.adopted(previous);
    }
    if (candidate) return true;
    if (!keep) uncommitted_ = 0;
    CAUSEWAY_TRY(store(round, now.hash));
    locked([&] { control_->holds(round, now.hash); });
    hold(now.newest, samples);
    return waits_.look().is != situation::kind::fetch;  // or there are newer rounds by now
  }

  // A commit just after this peer had asked says nothing of how long the transfer takes: once that does not count.
  void excuse(duration took) {
    if (!std::exchange(excused_, true) && took < options_.protocol.heartbeat) in_vain_ = 0;
  }

  // ---- rounds that were committed while the state of an earlier one came --------------------------------------------

  // Whether what is in memory is a state that others keep for this peer, with the means of the rounds since.
  [[nodiscard]] bool follows() const {
    bool can = false;
    locked([&] { can = state_.replay && control_->kept().kept() && control_->kept().base().round <= held_.round; });
    return can && in_step_;
  }

  // Does those rounds again, from what they exchanged. Ends when the newest is reached, or nobody can help any further.
  result<void> follow(bool keep, bool late) {
    const std::vector<float> previous = keep ? shared_parameters() : std::vector<float>{};
    if (!keep) uncommitted_ = 0;
    locked([&] { control_->withdraw(); });
    std::uint64_t at = held_.round;
    in_step_ = false;
    for (;;) {
      CAUSEWAY_ASSIGN(const bool done, fetch_.replay(at + 1, late));
      if (!done) break;
      ++at;
      const situation now = waits_.look();
      if (now.is != situation::kind::fetch || now.newest.round != at) continue;
      in_step_ = hash_image() == now.hash;
      if (!in_step_) break;
      state_.adopted(previous);
      CAUSEWAY_TRY(store(at, now.hash));
      locked([&] { control_->holds(at, now.hash); });
      hold(now.newest);
      return {};
    }
    state_.adopted(previous);
    locked([&] { control_->kept().end(); });
    return {};
  }

  [[nodiscard]] std::vector<float> shared_parameters() const {
    const auto first = state_.parts.front();
    std::vector<float> values(first.size() / sizeof(float));
    std::copy(first.begin(), first.end(), std::as_writable_bytes(std::span{values}).begin());
    return values;
  }

  void passing(std::string_view point) const {
    if (options_.passing) options_.passing(point);
  }

  void locked(const std::function<void()>& what) const { fabric_->locked(what); }

  static constexpr std::uint32_t times_unusable = 8;  // in a row

  static constexpr unsigned quick_tries = 1;

  struct candidate_state {
    std::uint64_t round = 0, hash = 0;
  };

  std::shared_ptr<net::fabric> fabric_;
  member_options options_;
  log_sink log_;
  std::unique_ptr<member_control> control_;
  detail::member_waits waits_;
  detail::state_fetch fetch_;
  membership::round_store store_;
  membership::state_image image_;
  shared_state state_;
  thread_pool* pool_ = nullptr;
  std::unique_ptr<spare_round> spare_;
  membership::commit_record held_;
  candidate_state candidate_;
  held_samples samples_;           // as of held_
  std::uint64_t uncommitted_ = 0;  // trained on since the last commit
  std::uint64_t contributed_ = 0;
  bool lost_progress_ = false;  // in `enter`, to be said by `settle`

  detail::entered_attempt attempt_;
  std::shared_ptr<const membership::kept_bytes> mean_;  // of the exchange that went through last, if others need it
  std::uint64_t mean_of_ = 0;
  bool in_step_ = false;              // the shared state is that of held_
  bool excused_ = false;              // one fetch in vain was
  unsigned in_vain_ = 0;              // states fetched, or begun to be, since this peer last took part
  std::uint32_t unusable_ = 0;        // contributions in a row that were not finite
  std::uint64_t sits_out_until_ = 0;  // a round
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_MEMBER_HPP

// ---- causeway/train/observer.hpp ----
#ifndef CAUSEWAY_TRAIN_OBSERVER_HPP
#define CAUSEWAY_TRAIN_OBSERVER_HPP

// What a trainer reports, and who is told. Reports are plain values; observers are called on the trainer's thread.

namespace causeway::inline CAUSEWAY_ABI {

/// One committed inner step of this peer.
struct step_report {
  std::uint64_t step = 0;        ///< inner steps committed, this one included
  std::uint64_t round = 0;       ///< outer rounds committed
  double loss = 0;               ///< mean over this peer's batch, in nats per token
  std::int64_t tokens = 0;       ///< of this peer's batch
  float learning_rate = 0;       ///< of the inner step
  float gradient_norm = 0;       ///< before clipping
  double compute_seconds = 0;    ///< forward, backward and optimizer
  double exchange_seconds = 0;   ///< blocked in the hooks of the communication policy
  bool by_others = false;        ///< this peer's attempt failed, and it took over what others committed: no loss of it
  bool committed_round = false;  ///< whether an outer round was committed in this step
  std::uint64_t state_hash = 0;  ///< of the committed parameters, where one was made in this step; else 0
};

/// Called after every committed step.
using step_observer = std::function<void(const step_report&)>;

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_OBSERVER_HPP

// ---- causeway/train/refound.hpp ----
#ifndef CAUSEWAY_TRAIN_REFOUND_HPP
#define CAUSEWAY_TRAIN_REFOUND_HPP

// Founds a run anew from what the peers of one that cannot go on have on disk. Done on the storage, while no process uses
// it: whoever starts as that peer afterwards finds itself the only member of the new run, and others join it as always.

namespace causeway::inline CAUSEWAY_ABI {

namespace detail {

struct survivor {
  std::string folder;
  membership::durable_record record;
};

// What each folder knows of commits of other runs than `run`, the newest first: its record, and those beside stored states.
// A state is stored before it is voted for: one that is newer than every commit known may be nobody's.
inline std::vector<survivor> survivors_in(io::any_storage& storage, std::span<const std::string> folders,
                                          std::uint64_t run) {
  std::vector<survivor> found;
  for (const std::string& folder : folders) {
    auto record = read_member_record(storage, folder);
    if (record && record->newest && record->run != run) found.push_back({folder, std::move(*record)});
  }
  std::uint64_t newest = found.empty() ? UINT64_MAX : 0;
  for (const survivor& s : found) newest = std::max(newest, s.record.newest->round);
  for (const std::string& folder : folders) {
    for (auto& record : membership::round_store{storage, folder + "/rounds"}.records()) {
      if (record.run != run && record.newest->round <= newest) found.push_back({folder, std::move(record)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const survivor& a, const survivor& b) { return a.record.newest->round > b.record.newest->round; });
  return found;
}

}  // namespace detail

/// The newest commit of another run than `run` that any of the folders knows, whether or not its state is there.
[[nodiscard]] inline std::optional<std::uint64_t> newest_round_known(io::any_storage storage,
                                                                     std::span<const std::string> folders,
                                                                     std::uint64_t run) {
  const auto known = detail::survivors_in(storage, folders, run);
  return known.empty() ? std::nullopt : std::optional{known.front().record.newest->round};
}

/// Makes the peer in `into` the founder of `run`, with the id `self`, from the newest commit among `folders` whose state is
/// there, whole; rounds after it are lost (newest_round_known, asked before, says how many), and their samples are trained
/// on again. What it writes comes with the record last, so that a crash leaves `into` as it was or done. The others
/// join as anybody does. errc::not_found if no folder has both a record and its state. Cost: reads and writes the shared
/// state once.
inline result<membership::durable_record> refound(io::any_storage storage, std::span<const std::string> folders,
                                                  const std::string& into, std::uint64_t run, net::peer_id self) {
  std::string why = "none has a record of the membership";
  for (const auto& from : detail::survivors_in(storage, folders, run)) {
    const auto founded = membership::refounded(from.record, run, self);
    membership::round_store old{storage, from.folder + "/rounds"};
    membership::round_store fresh{storage, into + "/rounds"};
    const auto taken = fresh.take_over(old, founded.newest->state, run, founded.newest->round);
    if (!taken) {
      why = taken.error().text();
      continue;
    }
    CAUSEWAY_TRY(detail::write_member_record(storage, into, membership::encode(founded)));
    return founded;
  }
  return fail(errc::not_found, folders.empty() ? into : folders.front(),
              "no folder here has both a committed round and its state (" + why +
                  "); copy the folder of a peer that was in the last rounds here");
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_REFOUND_HPP

// ---- causeway/parallel/envelope.hpp ----
#ifndef CAUSEWAY_PARALLEL_ENVELOPE_HPP
#define CAUSEWAY_PARALLEL_ENVELOPE_HPP

// What all control messages between peers of a layout have in common: format, run, kind, fields. A message is a variant;
// the place of a kind in it is its number on the wire, so kinds are appended, never reordered.

namespace causeway::inline CAUSEWAY_ABI::parallel::envelope {

/// A family of messages.
struct kind {
  std::string_view name;     ///< for errors: "swarm message"
  std::string_view differs;  ///< what else may differ where the run does
  std::uint8_t format = 1;
};

inline void put_real(net::byte_writer& out, double v) { out.put(std::bit_cast<std::uint64_t>(v)); }
/// A finite one.
inline double get_real(net::byte_reader& in) {
  const auto v = std::bit_cast<double>(in.get<std::uint64_t>());
  if (!std::isfinite(v)) in.refuse();
  return v;
}
inline std::uint8_t get_flag(net::byte_reader& in) {
  const auto v = in.get<std::uint8_t>();
  if (v > 1) in.refuse();
  return v;
}
inline std::uint32_t get_below(net::byte_reader& in, std::uint32_t limit) {
  const auto v = in.get<std::uint32_t>();
  if (v >= limit) in.refuse();
  return v;
}

namespace detail {

template <class Message, class Read, std::size_t I = 0>
Message read_kind(net::byte_reader& in, std::size_t which, Read& read) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (which != I) return read_kind<Message, Read, I + 1>(in, which, read);
    std::variant_alternative_t<I, Message> m;
    read(in, m);
    return m;
  } else {
    in.refuse();
    return {};
  }
}

}  // namespace detail

/// `write(out, alternative)` writes the fields.
template <class Message, class Write>
[[nodiscard]] std::vector<std::byte> seal(const kind& k, std::uint64_t run, const Message& m, Write write) {
  net::byte_writer out;
  out.put(k.format).put(run).put(static_cast<std::uint8_t>(m.index()));
  std::visit([&](const auto& which) { write(out, which); }, m);
  return std::move(out).take();
}

/// errc::version_mismatch, errc::wrong_run for another run's, errc::corrupt or errc::too_large for what no encoder makes.
/// `read(in, alternative)` reads the fields.
template <class Message, class Read>
[[nodiscard]] result<Message> open(const kind& k, std::uint64_t run, std::span<const std::byte> bytes, Read read) {
  net::byte_reader in{bytes};
  if (in.get<std::uint8_t>() != k.format) {
    return fail(errc::version_mismatch, std::string{k.name}, "another format; all peers must run the same version");
  }
  if (in.get<std::uint64_t>() != run && in.ok()) {
    return fail(errc::wrong_run, std::string{k.name}, "it is of another run, or of another " + std::string{k.differs});
  }
  const auto which = in.get<std::uint8_t>();
  result<Message> m{detail::read_kind<Message>(in, which, read)};
  if (const auto end = in.finish(k.name); !end) return end.error();
  return m;
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel::envelope

#endif  // CAUSEWAY_PARALLEL_ENVELOPE_HPP

// ---- causeway/parallel/swarm_table_exchange.hpp ----
#ifndef CAUSEWAY_PARALLEL_SWARM_TABLE_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_SWARM_TABLE_EXCHANGE_HPP

// A token table that is the output layer too, on its way between the two ends of a swarm: who lacks it asks a peer that has
// it, piece by piece, and asks another from the beginning when that one is lost. A state machine without network and clock;
// who gives needs no more than a function, so a peer gives also while it computes, waits, or has finished.

namespace causeway::inline CAUSEWAY_ABI::parallel {

namespace swarm_wire {

inline constexpr std::size_t table_piece_values = std::size_t{1} << 16U;
static_assert(table_piece_values * sizeof(float) <= net::max_post_bytes / 2);

/// To the other end of the model: a piece of what it has of the table in a step. The first stage gives its part of the
/// gradient, the last the table as the step left it.
struct table_request {
  std::uint64_t step = 0;
  std::uint32_t piece = 0;
};

/// The answer.
struct table_piece {
  std::uint64_t step = 0;
  std::uint32_t piece = 0;
  std::uint64_t version = 0;    ///< pieces of another version are of another sum
  std::vector<float> values{};  ///< finite; none: the sender has nothing of that step
};

namespace detail {

inline void write(net::byte_writer& out, const table_request& m) { out.put(m.step).put(m.piece); }
inline void read(net::byte_reader& in, table_request& m) {
  m.step = in.get<std::uint64_t>();
  m.piece = in.get<std::uint32_t>();
}

inline void write(net::byte_writer& out, const table_piece& m) {
  out.put(m.step).put(m.piece).put(m.version).put_bytes(std::as_bytes(std::span{m.values}));
}
inline void read(net::byte_reader& in, table_piece& m) {
  m.step = in.get<std::uint64_t>();
  m.piece = in.get<std::uint32_t>();
  m.version = in.get<std::uint64_t>();
  const auto bytes = in.get_bytes(table_piece_values * sizeof(float));
  if (bytes.size() % sizeof(float) != 0) in.refuse();
  if (!in.ok()) return;
  m.values.resize(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(m.values.data(), bytes.data(), bytes.size());
  if (!std::all_of(m.values.begin(), m.values.end(), [](float v) { return std::isfinite(v); })) in.refuse();
}

}  // namespace detail

}  // namespace swarm_wire

/// The answer of a peer that has `table`; empty if it has none of that step.
[[nodiscard]] inline swarm_wire::table_piece answer(const swarm_wire::table_request& asked, std::span<const float> table,
                                                    std::uint64_t version) {
  swarm_wire::table_piece p{asked.step, asked.piece, version, {}};
  const std::size_t from = asked.piece * swarm_wire::table_piece_values;
  if (from >= table.size()) return p;
  const auto part = table.subspan(from, std::min(swarm_wire::table_piece_values, table.size() - from));
  p.values.assign(part.begin(), part.end());
  return p;
}

/// Thread safety: none; the fabric's lock serves. Memory: one table. 2 MiB are under way.
class swarm_table_fetch {
 public:
  static constexpr std::uint32_t window = 8;  // pieces asked for and not here

  /// `length` values of that step. What is there of it already stays.
  void want(std::uint64_t step, std::size_t length) {
    if (wanted_ && step_ == step && values_.size() == length) return;
    *this = {};
    wanted_ = true;
    step_ = step;
    values_.resize(length);
  }
  /// What is there of another step is of no use.
  void keep_only(std::uint64_t step) {
    if (step_ != step) *this = {};
  }

  /// Wanted, not here, and nobody is asked.
  [[nodiscard]] bool looks_for_a_source() const noexcept { return wanted_ && !complete() && source_ == 0; }
  /// Asks that peer from the beginning: sums that two peers have may be rounded differently.
  void ask(net::peer_id from) {
    source_ = from;
    there_.assign(pieces(), false);
    got_ = next_ = 0;
  }
  /// To whom `take_requests` are to be sent.
  [[nodiscard]] net::peer_id source() const noexcept { return source_; }
  [[nodiscard]] std::vector<swarm_wire::table_request> take_requests() {
    std::vector<swarm_wire::table_request> due;
    if (source_ == 0 || complete()) return due;
    for (; next_ < pieces() && next_ < got_ + window; ++next_) due.push_back({step_, next_});
    return due;
  }

  /// True: with this piece it is whole. What was not asked for, or is there already, is passed over.
  bool take(net::peer_id from, const swarm_wire::table_piece& p) {
    if (!wanted_ || complete() || from != source_ || p.step != step_) return false;
    if (p.values.empty() || p.piece >= pieces() || p.values.size() != size_of(p.piece)) {
      refused_.insert(from);
      source_ = 0;
      return false;
    }
    if (got_ > 0 && p.version != version_) {  // its sum was made again meanwhile
      source_ = 0;
      return false;
    }
    version_ = p.version;
    if (there_[p.piece]) return false;
    std::copy(p.values.begin(), p.values.end(), values_.begin() + p.piece * swarm_wire::table_piece_values);
    there_[p.piece] = true;
    ++got_;
    return complete();
  }
  void lost(net::peer_id peer) {
    if (source_ == peer) source_ = 0;
    refused_.erase(peer);
  }
  /// Whether it had nothing, though it said otherwise; until `forgive`.
  [[nodiscard]] bool refused(net::peer_id peer) const { return refused_.contains(peer); }
  void forgive() { refused_.clear(); }

  [[nodiscard]] bool has(std::uint64_t step) const noexcept { return wanted_ && step_ == step && complete(); }
  /// Precondition: it has them.
  [[nodiscard]] std::span<const float> values() const noexcept { return values_; }

 private:
  [[nodiscard]] std::uint32_t pieces() const noexcept {
    return static_cast<std::uint32_t>((values_.size() + swarm_wire::table_piece_values - 1) /
                                      swarm_wire::table_piece_values);
  }
  [[nodiscard]] std::size_t size_of(std::uint32_t piece) const noexcept {
    return std::min(swarm_wire::table_piece_values, values_.size() - piece * swarm_wire::table_piece_values);
  }
  [[nodiscard]] bool complete() const noexcept { return got_ > 0 && got_ == pieces(); }

  bool wanted_ = false;
  std::uint64_t step_ = 0;
  std::vector<float> values_;
  std::vector<bool> there_;
  net::peer_id source_ = 0;
  std::uint64_t version_ = 0;
  std::uint32_t got_ = 0, next_ = 0;
  std::set<net::peer_id> refused_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_TABLE_EXCHANGE_HPP

// ---- causeway/parallel/swarm_messages.hpp ----
#ifndef CAUSEWAY_PARALLEL_SWARM_MESSAGES_HPP
#define CAUSEWAY_PARALLEL_SWARM_MESSAGES_HPP

// What the peers of a swarm say to each other, and its bytes: format, run, kind, fields. docs/design/swarm.md says when.
// Boundary tensors are no messages of this kind: they travel as data, each announced by a `parcel`. Those about a tied
// table are in swarm_table_exchange.hpp.

namespace causeway::inline CAUSEWAY_ABI::parallel::swarm_wire {

inline constexpr std::uint32_t most_stages = 1024;
inline constexpr std::uint32_t most_micro_batches = 1U << 20U;
inline constexpr std::size_t most_addresses = 1024;
inline constexpr std::size_t longest_address = 256;

/// What a swarm does one after the other: the evaluations before a step, in their order, where peers take local steps the
/// local step, and what ends with the stages' exchange. A turn is what messages and tensors belong to.
inline constexpr unsigned turn_bits = 20;
inline constexpr std::uint64_t most_evaluations = (std::uint64_t{1} << turn_bits) - 2;  // of a step
[[nodiscard]] constexpr std::uint64_t evaluation_turn(std::uint64_t step, std::uint64_t count) noexcept {
  return step << turn_bits | count;
}
[[nodiscard]] constexpr std::uint64_t local_turn(std::uint64_t step) noexcept {
  return evaluation_turn(step, most_evaluations);
}
[[nodiscard]] constexpr std::uint64_t training_turn(std::uint64_t step) noexcept { return local_turn(step) + 1; }
[[nodiscard]] constexpr std::uint64_t step_of(std::uint64_t turn) noexcept { return turn >> turn_bits; }
[[nodiscard]] constexpr bool trains(std::uint64_t turn) noexcept { return turn >= local_turn(step_of(turn)); }
[[nodiscard]] constexpr bool is_local(std::uint64_t turn) noexcept { return turn == local_turn(step_of(turn)); }

/// A set of micro-batches of a turn.
class batch_set {
 public:
  batch_set() = default;
  explicit batch_set(std::uint32_t size) : size_{size}, words_((size + 63U) / 64U, 0) {}

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] bool has(std::uint32_t m) const noexcept { return m < size_ && (words_[m / 64U] >> (m % 64U) & 1U) != 0; }
  void add(std::uint32_t m) {
    CAUSEWAY_EXPECT(m < size_);
    words_[m / 64U] |= std::uint64_t{1} << (m % 64U);
  }
  void remove(std::uint32_t m) {
    CAUSEWAY_EXPECT(m < size_);
    words_[m / 64U] &= ~(std::uint64_t{1} << (m % 64U));
  }
  [[nodiscard]] std::uint32_t count() const noexcept {
    int n = 0;
    for (const std::uint64_t w : words_) n += std::popcount(w);
    return static_cast<std::uint32_t>(n);
  }
  /// Precondition: of equal size.
  [[nodiscard]] bool meets(const batch_set& other) const noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }
  void unite(const batch_set& other) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  friend bool operator==(const batch_set&, const batch_set&) = default;

  void write(net::byte_writer& out) const {
    out.put(size_);
    for (const std::uint64_t w : words_) out.put(w);
  }
  /// Allocates no more than the input backs; bits beyond the size are refused.
  static batch_set read(net::byte_reader& in) {
    const auto size = in.get<std::uint32_t>();
    const std::size_t words = (std::size_t{size} + 63U) / 64U;
    if (size > most_micro_batches || words * 8 > in.remaining()) in.refuse();
    if (!in.ok()) return {};
    batch_set s{size};
    for (auto& w : s.words_) w = in.get<std::uint64_t>();
    if (size % 64U != 0 && s.words_.back() >> (size % 64U) != 0) in.refuse();
    return s;
  }

 private:
  std::uint32_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

/// What a stage's sum of a step came to: no stage moves its weights before every stage has its sum.
struct stage_sum {
  std::uint64_t step = 0;
  double squares = -1;  ///< of the sum's 2-norm; negative: there is none
};

/// Where a peer stands. To everybody: when it changes, and with every heartbeat.
struct status {
  std::uint32_t stage = 0;
  std::uint8_t serving = 0;  ///< has the weights of its stage
  std::uint64_t turn = 0;    ///< that it works on
  std::uint32_t term = 0;    ///< of the driver that it follows
  std::uint8_t drives = 0;   ///< it is that driver itself
  double queued = 0;         ///< micro-batches that wait here, on average: queue_meter
  double seconds = 0;        ///< that one takes here; 0: not known
  stage_sum sums[2];         ///< of its stage, for the newest two steps that have one
  /// Of a tied table, on the last stage: the turn for whose sum it has the first stage's part. 0: none.
  std::uint64_t part = 0;
  std::uint64_t committed = 0;  ///< at the ends of a model with a tied table: steps in the committed state that it holds
};

/// From a peer that takes the driving over.
struct claim {
  std::uint32_t term = 0;
};

/// The answer, also unasked when something was dropped: what of a turn is in this peer's hands.
struct report {
  std::uint32_t term = 0;
  std::uint64_t turn = 0;
  batch_set done;                ///< in its gradient; in an evaluation: computed
  batch_set begun;               ///< computed forward, not back
  std::vector<double> losses{};  ///< on the last stage: of the micro-batches in `done`, ascending
};

/// What the neighbours have to do for a stage of a micro-batch's path.
enum class stage_need : std::uint8_t {
  usual,     ///< send what it has not been sent
  finished,  ///< it has contributed: nothing
  again,     ///< another peer stands in there: send what is kept, even if it was sent before
};

/// The driver's word on one micro-batch: to every peer of its path, again with a higher version when the path changes.
struct order {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  std::uint64_t version = 0;         ///< term · 2^32 + count
  std::vector<net::peer_id> path{};  ///< by stage; 0: left out
  std::vector<stage_need> needs{};   ///< by stage
  /// By stage: the version with which it last began the micro-batch anew. Never falls from one stage to the next. 0: peers
  /// of a stage compute alike, and none ever has to.
  std::vector<std::uint64_t> passes{};
};

/// A boundary tensor follows as data.
struct parcel {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  std::uint8_t backward = 0;
  std::uint64_t serial = 0;  ///< names the data among those of its sender
  std::uint64_t pass = 0;    ///< of the upper of the two stages
};

/// A micro-batch is in this peer's gradient, or in an evaluation computed. To the driver.
struct contributed {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  double seconds = 0;  ///< 0: not of a training step
  double loss = 0;     ///< summed over tokens, on the last stage
};

/// Whether the driver knows every micro-batch of the step in the gradient of a living peer of every stage that it passes;
/// of an evaluation, every micro-batch's loss.
struct verdict {
  std::uint64_t turn = 0;
  std::uint8_t complete = 0;
  double loss = 0;  ///< of the whole turn, summed over tokens
};

/// Where to find others.
struct addresses {
  std::vector<std::string> list{};
};

/// The driver asks a peer to serve another stage.
struct move_request {
  std::uint32_t term = 0;
  std::uint32_t stage = 0;
};

/// What came from a peer for a micro-batch cannot be decoded. To the driver.
struct refusal {
  std::uint64_t turn = 0;
  std::uint32_t micro_batch = 0;
  net::peer_id from = 0;
};

/// To be sent back at once, so that its sender learns how far away the other is.
struct probe {
  std::uint64_t mark = 0;
};
struct echo {
  std::uint64_t mark = 0;
};

/// What that came to, for all peers within reach. To the driver.
struct delays {
  struct one {
    net::peer_id to = 0;
    double seconds = 0;  ///< half a round trip
  };
  std::vector<one> list{};
};

/// The place in the list is the kind on the wire: append, never reorder.
using message = std::variant<status, claim, report, order, parcel, contributed, verdict, addresses, move_request, refusal,
                             probe, echo, delays, table_request, table_piece>;

namespace detail {

inline constexpr envelope::kind messages{"swarm message", "model, codec or number of micro-batches or local steps", 4};

using envelope::get_below, envelope::get_flag, envelope::get_real, envelope::put_real;

inline void write(net::byte_writer& out, const status& m) {
  out.put(m.stage).put(m.serving).put(m.turn).put(m.term).put(m.drives);
  put_real(out, m.queued);
  put_real(out, m.seconds);
  for (const stage_sum& s : m.sums) put_real(out.put(s.step), s.squares);
  out.put(m.part).put(m.committed);
}
inline void read(net::byte_reader& in, status& m) {
  m.stage = get_below(in, most_stages);
  m.serving = get_flag(in);
  m.turn = in.get<std::uint64_t>();
  m.term = in.get<std::uint32_t>();
  m.drives = get_flag(in);
  m.queued = get_real(in);
  m.seconds = get_real(in);
  for (stage_sum& s : m.sums) {
    s.step = in.get<std::uint64_t>();
    s.squares = get_real(in);
  }
  m.part = in.get<std::uint64_t>();
  m.committed = in.get<std::uint64_t>();
}

inline void write(net::byte_writer& out, const claim& m) { out.put(m.term); }
inline void read(net::byte_reader& in, claim& m) { m.term = in.get<std::uint32_t>(); }

inline void write(net::byte_writer& out, const report& m) {
  out.put(m.term).put(m.turn);
  m.done.write(out);
  m.begun.write(out);
  out.put(static_cast<std::uint32_t>(m.losses.size()));
  for (const double l : m.losses) put_real(out, l);
}
inline void read(net::byte_reader& in, report& m) {
  m.term = in.get<std::uint32_t>();
  m.turn = in.get<std::uint64_t>();
  m.done = batch_set::read(in);
  m.begun = batch_set::read(in);
  const auto n = in.get<std::uint32_t>();
  if (m.done.size() != m.begun.size() || (n != 0 && n != m.done.count()) || std::size_t{n} * 8 > in.remaining())
    in.refuse();
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.losses.push_back(get_real(in));
}

inline void write(net::byte_writer& out, const order& m) {
  out.put(m.turn).put(m.micro_batch).put(m.version).put(static_cast<std::uint32_t>(m.path.size()));
  for (std::size_t s = 0; s < m.path.size(); ++s) {
    out.put(m.path[s]).put(static_cast<std::uint8_t>(m.needs[s])).put(m.passes[s]);
  }
}
inline void read(net::byte_reader& in, order& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.version = in.get<std::uint64_t>();
  const auto stages = get_below(in, most_stages + 1);
  for (std::uint32_t s = 0; s < stages && in.ok(); ++s) {
    m.path.push_back(in.get<std::uint64_t>());
    const auto need = in.get<std::uint8_t>();
    if (need > 2) in.refuse();
    m.needs.push_back(static_cast<stage_need>(need));
    m.passes.push_back(in.get<std::uint64_t>());
    if (m.passes.back() > m.version || (s > 0 && m.passes.back() < m.passes[s - 1])) in.refuse();
  }
}

inline void write(net::byte_writer& out, const parcel& m) {
  out.put(m.turn).put(m.micro_batch).put(m.backward).put(m.serial).put(m.pass);
}
inline void read(net::byte_reader& in, parcel& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.backward = get_flag(in);
  m.serial = in.get<std::uint64_t>();
  m.pass = in.get<std::uint64_t>();
}

inline void write(net::byte_writer& out, const contributed& m) {
  out.put(m.turn).put(m.micro_batch);
  put_real(out, m.seconds);
  put_real(out, m.loss);
}
inline void read(net::byte_reader& in, contributed& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.seconds = get_real(in);
  m.loss = get_real(in);
}

inline void write(net::byte_writer& out, const verdict& m) { put_real(out.put(m.turn).put(m.complete), m.loss); }
inline void read(net::byte_reader& in, verdict& m) {
  m.turn = in.get<std::uint64_t>();
  m.complete = get_flag(in);
  m.loss = get_real(in);
}

inline void write(net::byte_writer& out, const addresses& m) {
  out.put(static_cast<std::uint32_t>(m.list.size()));
  for (const std::string& a : m.list) out.put_text(a);
}
inline void read(net::byte_reader& in, addresses& m) {
  const auto n = get_below(in, most_addresses + 1);
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) m.list.push_back(in.get_text(longest_address));
}

inline void write(net::byte_writer& out, const move_request& m) { out.put(m.term).put(m.stage); }
inline void read(net::byte_reader& in, move_request& m) {
  m.term = in.get<std::uint32_t>();
  m.stage = get_below(in, most_stages);
}

inline void write(net::byte_writer& out, const refusal& m) { out.put(m.turn).put(m.micro_batch).put(m.from); }
inline void read(net::byte_reader& in, refusal& m) {
  m.turn = in.get<std::uint64_t>();
  m.micro_batch = get_below(in, most_micro_batches);
  m.from = in.get<std::uint64_t>();
}

inline void write(net::byte_writer& out, const probe& m) { out.put(m.mark); }
inline void read(net::byte_reader& in, probe& m) { m.mark = in.get<std::uint64_t>(); }
inline void write(net::byte_writer& out, const echo& m) { out.put(m.mark); }
inline void read(net::byte_reader& in, echo& m) { m.mark = in.get<std::uint64_t>(); }

inline void write(net::byte_writer& out, const delays& m) {
  out.put(static_cast<std::uint32_t>(m.list.size()));
  for (const auto& d : m.list) put_real(out.put(d.to), d.seconds);
}
inline void read(net::byte_reader& in, delays& m) {
  const auto n = get_below(in, most_addresses + 1);
  for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
    const auto to = in.get<std::uint64_t>();
    m.list.push_back({to, get_real(in)});
    if (m.list.back().seconds < 0) in.refuse();
  }
}

}  // namespace detail

[[nodiscard]] inline std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return envelope::seal(detail::messages, run, m,
                        [](net::byte_writer& out, const auto& which) { detail::write(out, which); });
}

/// As envelope::open.
[[nodiscard]] inline result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return envelope::open<message>(detail::messages, run, bytes,
                                 [](net::byte_reader& in, auto& which) { detail::read(in, which); });
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel::swarm_wire

#endif  // CAUSEWAY_PARALLEL_SWARM_MESSAGES_HPP

// ---- causeway/parallel/swarm_shares.hpp ----
#ifndef CAUSEWAY_PARALLEL_SWARM_SHARES_HPP
#define CAUSEWAY_PARALLEL_SWARM_SHARES_HPP

// Who puts what into the sum of a stage's gradients, decided by all of an exchange's peers from the same facts, before
// anything is added: this, and nothing before it, makes every micro-batch count exactly once.

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// What one peer could put in.
struct swarm_holding {
  std::uint64_t step = 0;
  bool sum = false;            ///< it has the whole sum, of an exchange that was called off afterwards
  swarm_wire::batch_set done;  ///< micro-batches in its own gradient
  bool released = false;       ///< other stages are through with the round: what is missing stays missing
  bool part = false;           ///< it has the first stage's part of a tied table's gradient, and this is the last stage
};

enum class swarm_part : std::uint8_t {
  own,      ///< its own gradient
  sum,      ///< the sum that it has
  nothing,  ///< zeros; what it has stays as it is
  dropped,  ///< zeros, and it must forget its gradient: others have part of it
};

struct swarm_plan {
  std::vector<swarm_part> parts;  ///< by peer of the exchange
  bool complete = false;          ///< the parts make the whole; else nothing may be exchanged
  std::size_t adds_part = none;   ///< who adds the first stage's part of a tied table's gradient

  static constexpr std::size_t none = SIZE_MAX;
};

/// A sum that somebody has is taken as it is. Else peers count in their order, and one whose set meets what those before
/// it have is left out whole: its gradient cannot be taken apart. `needs_part`: the last stage of a model with a tied
/// table; the first peer that has the first stage's part adds it to whatever else it puts in.
[[nodiscard]] inline swarm_plan plan_shares(std::span<const swarm_holding> all, std::uint64_t step,
                                            const swarm_wire::batch_set& wanted, bool needs_part = false) {
  swarm_plan plan{std::vector(all.size(), swarm_part::nothing)};
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (!all[p].sum || all[p].step != step) continue;
    plan.parts[p] = swarm_part::sum;
    plan.complete = true;
    return plan;
  }
  swarm_wire::batch_set covered{wanted.size()};
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (all[p].step != step || all[p].done.size() != wanted.size() || all[p].done.count() == 0) continue;
    const bool doubled = all[p].done.meets(covered);
    plan.parts[p] = doubled ? swarm_part::dropped : swarm_part::own;
    if (!doubled) covered.unite(all[p].done);
  }
  const auto lets_go = [step](const swarm_holding& h) { return h.released && h.step == step; };
  plan.complete = covered == wanted || std::any_of(all.begin(), all.end(), lets_go);
  if (!needs_part) return plan;
  const auto has_part = [step](const swarm_holding& h) { return h.part && h.step == step; };
  const auto first = std::find_if(all.begin(), all.end(), has_part);
  if (first != all.end()) plan.adds_part = static_cast<std::size_t>(first - all.begin());
  plan.complete = plan.complete && first != all.end();
  return plan;
}

/// What `self` weighs in a mean over all micro-batches, where parts are means over those of each peer.
[[nodiscard]] inline double weight_of(std::span<const swarm_holding> all, const swarm_plan& plan, std::size_t self) {
  if (plan.parts[self] == swarm_part::sum) return 1;
  if (plan.parts[self] != swarm_part::own) return 0;
  double together = 0;
  for (std::size_t p = 0; p < all.size(); ++p) together += plan.parts[p] == swarm_part::own ? all[p].done.count() : 0;
  return all[self].done.count() / together;
}

/// A peer's gradient while it goes in and out of exchanges: what it has computed itself, and its stage's sum.
class swarm_gradients {
 public:
  void begin(std::uint64_t step) {
    own_.clear();
    own_table_.clear();
    if (step_ != step) sum_.clear();
  }
  [[nodiscard]] bool has_sum(std::uint64_t step) const noexcept { return step_ == step && !sum_.empty(); }
  void keep_sum(std::uint64_t step, std::vector<float> sum) {
    sum_ = std::move(sum);
    step_ = step;
    ++version_;
  }
  /// Precondition: it has one.
  [[nodiscard]] std::span<const float> sum() const noexcept { return sum_; }
  /// Another one for every sum.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

  /// Fills `gradients`, which holds this peer's own, with its part; `restore` undoes it, if `keeps`.
  void put_in(swarm_part part, std::span<float> gradients, bool keeps = true) {
    if (part == swarm_part::own) return;
    if (keeps && part != swarm_part::dropped) own_.assign(gradients.begin(), gradients.end());
    if (part == swarm_part::sum) {
      std::copy(sum_.begin(), sum_.end(), gradients.begin());
    } else {
      std::fill(gradients.begin(), gradients.end(), 0.0F);
    }
  }
  /// Adds the other end's part to `table`, a place in what was put in; `restore` undoes that too.
  void add_part(std::span<const float> part, std::span<float> table) {
    own_table_.assign(table.begin(), table.end());
    for (std::size_t i = 0; i < table.size(); ++i) table[i] += part[i];
  }
  /// `table`: the place of `add_part`, or empty.
  void restore(std::span<float> gradients, std::span<float> table = {}) {
    if (!own_table_.empty()) std::copy(own_table_.begin(), own_table_.end(), table.begin());
    if (!own_.empty()) std::copy(own_.begin(), own_.end(), gradients.begin());
    own_.clear();
    own_table_.clear();
  }

 private:
  std::vector<float> own_, own_table_, sum_;
  std::uint64_t step_ = 0;
  std::uint64_t version_ = 0;
};

[[nodiscard]] inline std::vector<std::byte> encode(const swarm_holding& h) {
  net::byte_writer out;
  out.put(h.step).put(static_cast<std::uint8_t>((h.sum ? 1 : 0) | (h.released ? 2 : 0) | (h.part ? 4 : 0)));
  h.done.write(out);
  return std::move(out).take();
}

[[nodiscard]] inline result<swarm_holding> decode_holding(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  swarm_holding h;
  h.step = in.get<std::uint64_t>();
  const auto flags = in.get<std::uint8_t>();
  if (flags > 7) in.refuse();
  h.sum = (flags & 1U) != 0;
  h.released = (flags & 2U) != 0;
  h.part = (flags & 4U) != 0;
  h.done = swarm_wire::batch_set::read(in);
  CAUSEWAY_TRY(in.finish("swarm holding"));
  return h;
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SHARES_HPP

// ---- causeway/parallel/swarm_station.hpp ----
#ifndef CAUSEWAY_PARALLEL_SWARM_STATION_HPP
#define CAUSEWAY_PARALLEL_SWARM_STATION_HPP

// One peer's share of a turn in a swarm: which micro-batches it has been given, what it has of them, what it computes next
// and where the result goes. A state machine without network and clock: orders and tensors go in, tasks and shipments come
// out. Everything may come twice: what is there already is passed over, so nothing is computed into the gradient twice.
//
// Where the peers of a stage hold different values, a micro-batch that begins anew somewhere begins anew in all stages
// above too: orders and tensors carry the pass that they belong to, and no gradient is made of two passes' values.

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// A boundary tensor as it travels, encoded. Shared, since sends may outlive the step.
using boundary_bytes = std::shared_ptr<const std::vector<std::byte>>;

/// To be computed next.
struct swarm_task {
  std::uint32_t micro_batch = 0;
  bool backward = false;
  boundary_bytes input;  ///< from the stage before, or the gradient from the one behind; null at the model's ends
  std::uint64_t pass = 0;
};

/// A tensor to be sent.
struct swarm_shipment {
  net::peer_id to = 0;
  std::uint32_t micro_batch = 0;
  bool backward = false;
  boundary_bytes bytes;
  std::uint64_t pass = 0;  ///< of the upper of the two stages
};

/// Outputs and input gradients are kept until the turn ends: a peer that stands in for a lost neighbour needs them.
class swarm_station {
 public:
  swarm_station(net::peer_id self, std::uint32_t stage, std::uint32_t stages)
      : self_{self}, stage_{stage}, stages_{stages} {}

  /// `counted`: what this peer has contributed before; of the same size, or empty for nothing.
  void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_wire::batch_set counted = {}) {
    turn_ = turn;
    slots_.clear();
    shipments_.clear();
    counted_ = counted.size() == micro_batches ? std::move(counted) : swarm_wire::batch_set{micro_batches};
    done_ = counted_;
    next_place_ = 0;
  }

  // ---- events ----------------------------------------------------------------------------------------------------------

  /// A path, or a later version of it. What is kept here goes to neighbours that stand in for others.
  void take(const swarm_wire::order& o) {
    if (o.turn != turn_ || o.micro_batch >= done_.size() || o.path.size() != stages_ || o.passes.size() != stages_) return;
    slot& s = at(o.micro_batch);
    if (s.ordered && o.version <= s.path.version) return;
    const net::peer_id above = s.ordered ? neighbour(s, true) : 0;
    const net::peer_id below = s.ordered ? neighbour(s, false) : 0;
    s.path = o;
    s.ordered = o.path[stage_] == self_;
    if (!s.ordered) return;
    if (o.passes[stage_] > s.pass) s.begin_anew(o.passes[stage_]);
    if (s.output && (needs_again(s, true) || neighbour(s, true) != above)) ship(o.micro_batch, s, false);
    if (s.d_input && (needs_again(s, false) || neighbour(s, false) != below)) ship(o.micro_batch, s, true);
  }

  /// A tensor from a neighbouring stage; it may come before the order. An input is of this stage's pass; a gradient, of the
  /// pass of the stage above: that stage may have begun anew from the output that is kept here, never the other way round.
  void arrive(std::uint32_t micro_batch, bool backward, boundary_bytes bytes, std::uint64_t pass = 0) {
    if (micro_batch >= done_.size()) return;
    slot& s = at(micro_batch);
    received& place = backward ? s.d_output : s.input;
    if (pass < s.pass || (place.bytes && place.pass >= pass)) return;
    // An input of a pass to come is kept also where this one is finished: the order that begins anew may be on its way.
    if (backward ? s.finished : pass == s.pass && (s.forwarded || s.finished)) return;
    place = {std::move(bytes), pass};
    s.place = next_place_++;
  }

  /// What had arrived is of no use. Gives whom it is to come from; it may come again.
  net::peer_id refuse(std::uint32_t micro_batch, bool backward) {
    slot& s = at(micro_batch);
    (backward ? s.d_output : s.input).bytes.reset();
    return neighbour(s, backward);
  }

  /// Whether a tensor for this micro-batch is to come from that peer, as far as the orders say.
  [[nodiscard]] bool expects(net::peer_id peer, std::uint32_t micro_batch, bool backward) const {
    const auto known = slots_.find(micro_batch);
    return peer != 0 && known != slots_.end() && known->second.ordered && neighbour(known->second, backward) == peer;
  }

  /// A connection to this peer was made again: what it may have missed is sent once more.
  void connected(net::peer_id peer) {
    for (auto& [m, s] : slots_) {
      if (!s.ordered) continue;
      if (s.output && neighbour(s, true) == peer) ship(m, s, false);
      if (s.d_input && neighbour(s, false) == peer) ship(m, s, true);
    }
  }

  /// Another driver: what it does not hear about in a report does not happen.
  void drop_orders() {
    for (auto& [m, s] : slots_) s.ordered = s.ordered && (s.forwarded || s.finished);
  }

  /// The gradient was cleared.
  void drop_contributions() {
    std::erase_if(slots_, [](const auto& s) { return s.second.finished; });
    done_ = counted_;
  }
  /// The driver took this peer for lost, and has given all of it to others.
  void forget() {
    slots_.clear();
    done_ = counted_;
  }
  /// What has been contributed since the turn began is in this peer's parameters now; or, with false, what was counted
  /// before is not in them any more.
  void settle(bool counts) {
    counted_ = counts ? done_ : swarm_wire::batch_set{done_.size()};
    if (!counts) done_ = counted_;
  }

  // ---- work ------------------------------------------------------------------------------------------------------------

  /// Gradients first: they let go of memory. Then in the order of arrival.
  [[nodiscard]] std::optional<swarm_task> next() const {
    const std::pair<const std::uint32_t, slot>* best = nullptr;
    for (const auto& entry : slots_) {
      const slot& s = entry.second;
      if (!s.ordered || s.finished || !(ready_back(s) || ready_forth(s))) continue;
      const bool better =
          best == nullptr || (ready_back(s) != ready_back(best->second) ? ready_back(s) : s.place < best->second.place);
      if (better) best = &entry;
    }
    if (best == nullptr) return std::nullopt;
    const slot& s = best->second;
    const bool backward = ready_back(s);
    return swarm_task{best->first, backward, backward ? s.d_output.bytes : s.input.bytes, s.pass};
  }

  /// The forward of a task is computed; `output`: null on the last stage. Of no use if the micro-batch has begun anew.
  void forwarded(std::uint32_t micro_batch, boundary_bytes output, std::uint64_t pass = 0) {
    slot& s = at(micro_batch);
    if (s.pass != pass) return;
    s.forwarded = true;
    s.input.bytes.reset();
    s.output = std::move(output);
    s.place = next_place_++;
    if (s.output && s.ordered) ship(micro_batch, s, false);
  }

  /// The gradient of the micro-batch is in this peer's, whichever pass it is of; `d_input`: null on the first stage, and in
  /// an evaluation.
  void contributed(std::uint32_t micro_batch, double loss, boundary_bytes d_input, std::uint64_t pass = 0) {
    slot& s = at(micro_batch);
    done_.add(micro_batch);
    s.loss = loss;
    if (s.pass != pass) return;
    s.finished = true;
    s.d_output.bytes.reset();
    s.d_input = std::move(d_input);
    if (s.d_input && s.ordered) ship(micro_batch, s, true);
  }

  [[nodiscard]] std::vector<swarm_shipment> take_shipments() { return std::exchange(shipments_, {}); }

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t turn() const noexcept { return turn_; }
  [[nodiscard]] std::uint32_t stage() const noexcept { return stage_; }
  [[nodiscard]] const swarm_wire::batch_set& done() const noexcept { return done_; }
  /// Whether its gradient is to be added: another pass of what is there already is for the neighbours' sake.
  [[nodiscard]] bool adds(std::uint32_t micro_batch) const noexcept { return !done_.has(micro_batch); }
  /// Micro-batches in the gradient: contributed since the turn began.
  [[nodiscard]] std::uint32_t pending() const noexcept { return done_.count() - counted_.count(); }
  /// Micro-batches that wait for this peer.
  [[nodiscard]] std::uint32_t queued() const {
    std::uint32_t n = 0;
    for (const auto& [m, s] : slots_) n += s.ordered && !s.finished && (ready_back(s) || ready_forth(s)) ? 1U : 0U;
    return n;
  }
  [[nodiscard]] swarm_wire::report summary(std::uint32_t term) const {
    swarm_wire::report r{term, turn_, done_, swarm_wire::batch_set{done_.size()}, {}};
    for (const auto& [m, s] : slots_) {
      if (s.forwarded && !done_.has(m)) r.begun.add(m);
      if (done_.has(m) && stage_ + 1 == stages_) r.losses.push_back(s.loss);
    }
    if (r.losses.size() != r.done.count()) r.losses.clear();  // some are of earlier turns
    return r;
  }
  /// What the gradients of micro-batches computed forward are waited for from.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, net::peer_id>> waiting_for() const {
    std::vector<std::pair<std::uint32_t, net::peer_id>> all;
    for (const auto& [m, s] : slots_) {
      if (!s.ordered || s.finished || ready_back(s) || ready_forth(s)) continue;
      all.emplace_back(m, neighbour(s, s.forwarded));
    }
    return all;
  }

 private:
  struct received {
    boundary_bytes bytes;
    std::uint64_t pass = 0;
  };
  struct slot {
    swarm_wire::order path;
    bool ordered = false;
    bool forwarded = false;  // and its activations are there
    bool finished = false;   // computed back, or forward in an evaluation
    received input, d_output;
    boundary_bytes output, d_input;  // kept
    double loss = 0;
    std::uint64_t place = 0;  // in the queue
    std::uint64_t pass = 0;

    // An input of the new pass may have come before the order.
    void begin_anew(std::uint64_t from) {
      pass = from;
      forwarded = finished = false;
      if (input.pass < pass) input.bytes.reset();
      d_output.bytes.reset();
      output.reset();
      d_input.reset();
    }
  };

  slot& at(std::uint32_t micro_batch) {
    const auto [place, fresh] = slots_.try_emplace(micro_batch);
    if (fresh) place->second.place = next_place_++;
    return place->second;
  }

  [[nodiscard]] bool ready_forth(const slot& s) const {
    return !s.forwarded && (stage_ == 0 || (s.input.bytes && s.input.pass == s.pass));
  }
  [[nodiscard]] bool ready_back(const slot& s) const { return s.forwarded && (stage_ + 1 == stages_ || s.d_output.bytes); }

  // Of the next stage that the path passes, or of the one before. 0: none.
  [[nodiscard]] net::peer_id neighbour(const slot& s, bool above) const {
    const std::size_t at = neighbouring_stage(s, above);
    return at < stages_ ? s.path.path[at] : 0;
  }
  [[nodiscard]] std::size_t neighbouring_stage(const slot& s, bool above) const {
    std::size_t k = stage_;
    do {
      k = above ? k + 1 : k - 1;  // below stage 0: beyond all stages
    } while (k < stages_ && s.path.path[k] == 0);
    return k;
  }

  [[nodiscard]] bool needs_again(const slot& s, bool above) const {
    const std::size_t k = neighbouring_stage(s, above);
    return k < stages_ && s.path.needs[k] == swarm_wire::stage_need::again;
  }

  void ship(std::uint32_t micro_batch, const slot& s, bool backward) {
    const std::size_t k = neighbouring_stage(s, !backward);
    if (k >= stages_ || s.path.needs[k] == swarm_wire::stage_need::finished) return;
    const std::uint64_t pass = s.path.passes[backward ? stage_ : k];
    shipments_.push_back({s.path.path[k], micro_batch, backward, backward ? s.d_input : s.output, pass});
  }

  net::peer_id self_;
  std::uint32_t stage_;
  std::uint32_t stages_;
  std::uint64_t turn_ = 0;
  std::uint64_t next_place_ = 0;
  swarm_wire::batch_set counted_;  // before the turn
  swarm_wire::batch_set done_;
  std::map<std::uint32_t, slot> slots_;
  std::vector<swarm_shipment> shipments_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_STATION_HPP

// ---- causeway/parallel/swarm_options.hpp ----
#ifndef CAUSEWAY_PARALLEL_SWARM_OPTIONS_HPP
#define CAUSEWAY_PARALLEL_SWARM_OPTIONS_HPP

// What a swarm is told, what it needs of a model, and what it gives to the membership of a stage.

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct swarm_options {
  std::uint64_t run = 0;  ///< messages of another run are refused
  std::uint32_t stage = 0;
  std::uint32_t stages = 1;
  std::int64_t micro_batches = 8;  ///< of a global batch; equal on all peers
  /// Steps that the peers of a stage take on their own between exchanges, equal on all peers: parallel::local_swarm. 0:
  /// their gradients are summed in every step: parallel::swarm.
  std::uint32_t local_steps = 0;
  std::uint32_t window = 2;         ///< micro-batches under way, for each peer that serves
  std::vector<std::string> dial{};  ///< addresses of other peers; they tell of the rest
  duration heartbeat = std::chrono::seconds{1};
  duration silence = std::chrono::seconds{10};         ///< after which a connection is given up
  duration rebalance_every = std::chrono::minutes{5};  ///< how often a peer may be asked to serve another stage; 0: never
  double hysteresis = 1;                               ///< waiting micro-batches per peer that make it worth it
  duration say_after = std::chrono::seconds{5};        ///< a wait longer than this is logged, then at double intervals
};

/// A boundary tensor of one micro-batch.
struct swarm_crossing {
  std::uint32_t micro_batch = 0;
  std::uint32_t edge = 0;  ///< the lower of the stages between which it travels
  bool backward = false;   ///< a gradient
};

/// What a stage made of a micro-batch.
struct swarm_output {
  double loss = 0;       ///< summed over tokens, where it is known: on the last stage
  boundary_bytes bytes;  ///< to the next stage of the path; null at the model's ends
};

/// A stage of a model, as a swarm computes with it. For the trainer's thread.
class swarm_computer {
 public:
  virtual ~swarm_computer() = default;
  /// No encoded tensor of this crossing is longer.
  [[nodiscard]] virtual std::size_t most_bytes(const swarm_crossing& c) const = 0;
  /// The input of what is computed next. Any error: it was not what an encoder makes of finite values.
  virtual result<void> take_in(const swarm_crossing& c, const boundary_bytes& bytes) = 0;
  /// What comes out crosses as `output`. Keeps the activations until `backward`; in an evaluation it does not.
  virtual result<swarm_output> forward(const swarm_crossing& output) = 0;
  /// Adds the micro-batch's gradient.
  virtual result<swarm_output> backward(const swarm_crossing& d_input) = 0;
  [[nodiscard]] virtual std::span<float> gradients() = 0;
  /// Of the 2-norm of the gradients. Both ends have a tied table's: there it counts in the last stage.
  [[nodiscard]] virtual double squares() = 0;
  /// What `forward` keeps of a micro-batch that begins anew is of no use.
  virtual void forget(std::uint32_t) {}
  /// An inner step on `scale` times the gradients, which are the sum over a part of the micro-batches.
  virtual result<void> take_step(float) { return {}; }
  /// The gradients hold what this peer's parameters have moved since the last exchange; they move back.
  virtual void forget_progress() {}
};

/// A token table that is the output layer too, as an end of the model holds it.
struct swarm_tied_table {
  std::size_t offset = 0;                          ///< in buffers of the stage's parameters
  std::size_t length = 0;                          ///< 0: there is none, or this stage does not hold it
  std::function<std::span<float>()> parameters{};  ///< of the stage
  std::function<std::uint64_t()> step{};           ///< training_context::step
};

/// The whole sum of a stage's gradients in a step.
struct swarm_sum {
  std::uint64_t step = 0;
  double squares = 0;  ///< of its 2-norm
  std::span<float> values{};
};

/// A peer's part in the steps of a swarm, as train/swarm_group.hpp and parallel/swarm.hpp use it. All functions are for the
/// trainer's thread.
class swarm_round {
 public:
  virtual ~swarm_round() = default;
  [[nodiscard]] virtual const swarm_options& options() const noexcept = 0;
  /// Joins the others. Once; later calls do nothing. `agreement`: peers with another one are refused.
  virtual void open(std::uint64_t agreement) = 0;
  /// Before that, at both ends of a model with a tied table.
  virtual void tie(swarm_tied_table table) = 0;
  /// The parameters are a committed state's: after the membership was opened, and after every commit. `adopted`: it is the
  /// stage's other peers', and training_context::step says so already. The last stage gives its table from now on.
  virtual void committed(bool adopted) = 0;
  /// After the inner step: the first stage takes over the table that the last one has committed. Whether parameters
  /// changed.
  virtual bool put_table() = 0;

  /// A batch through all stages, forward only, in so many pieces: the summed loss. Every peer calls it, as often before a
  /// step. errc::cancelled: the others are through, and nobody knows any more what came out.
  virtual result<double> evaluate(std::uint64_t step, std::uint32_t pieces, swarm_computer& computer) = 0;

  /// A new step, with cleared gradients: computes what it is given until all stages have all micro-batches, and gives the
  /// summed loss. `computer` must outlive the step.
  virtual result<double> run(std::uint64_t step, swarm_computer& computer) = 0;
  /// The same again, before another attempt at the exchange. Ends also when `summoned` says that the stage's peers wait in
  /// an exchange: they are told there what is missing.
  virtual result<void> complete(const std::function<bool()>& summoned) = 0;

  /// Whether something is to be computed before the stage's peers can exchange. From any thread.
  [[nodiscard]] virtual bool called_away() const noexcept = 0;
  /// What this peer could put into its stage's sum.
  [[nodiscard]] virtual swarm_holding holding() = 0;
  /// Everybody's holdings, this peer's at `self`: fills the gradients with this peer's part, and gives its weight in the
  /// sum. errc::cancelled: the parts do not make the whole.
  virtual result<double> take_part(std::span<const swarm_holding> all, std::size_t self) = 0;
  /// The gradients hold the stage's sum; nobody has been told. What is on disk before `all_summed` tells the other stages
  /// lets this one take the step, whoever is lost afterwards.
  virtual result<swarm_sum> keep_sum() = 0;
  /// From that disk, in a new process, before the first step: the sum of a step that may have to be made again; without
  /// values, what only others may ask for.
  virtual void restore_sum(const swarm_sum& kept) = 0;
  /// After `keep_sum`. Blocks until every stage has its own, and gives the squared norm of all. The first stage of a model
  /// with a tied table waits until the last one has committed the step, and its table is here.
  virtual result<double> all_summed() = 0;
  /// What the stage's peers take for that.
  virtual void agreed(double squares) = 0;
  [[nodiscard]] virtual float norm() const = 0;

  /// Micro-batches in this peer's gradient.
  [[nodiscard]] virtual std::uint64_t contributed() = 0;

  /// With local steps, after `run`: this peer is through with the step, for which its contributions count. `round` computes
  /// what is missing before the exchange, of all local steps since the last one; it must outlive the exchange.
  virtual void end_local_step(std::uint64_t, swarm_computer&) {}
  /// The parameters are another committed state's now.
  virtual void replaced() {}
  /// This peer came to values that are not finite, or its parameters are not: what it has of the turn is thrown away, and
  /// others are given it. It serves again with the next turn that it begins.
  virtual void throw_away() = 0;
  /// With local steps: the micro-batches that this peer has stepped on since the last exchange, of all steps of the round.
  [[nodiscard]] virtual swarm_wire::batch_set progress() const { return {}; }
  /// What a micro-batch takes here, forward and backward; 0: not known yet.
  [[nodiscard]] virtual double seconds_per_micro_batch() { return 0; }
  /// The stage that this peer should serve, if it should serve another. It takes no more micro-batches then, and leaves its
  /// stage's membership: a step ends with errc::cancelled, and the program builds a peer of the other stage.
  [[nodiscard]] virtual std::optional<std::uint32_t> asked_to_move() = 0;
  /// On the clock of deadlines.
  [[nodiscard]] virtual time_point now() = 0;
  [[nodiscard]] virtual std::string describe() = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_OPTIONS_HPP

// ---- causeway/train/swarm_group.hpp ----
#ifndef CAUSEWAY_TRAIN_SWARM_GROUP_HPP
#define CAUSEWAY_TRAIN_SWARM_GROUP_HPP

// The peers of one stage of a swarm as a membership: that of train/member.hpp, with three things added. An exchange begins
// when the stage has every micro-batch of the step, and only if its peers have each exactly once between them; what is
// exchanged is summed, not averaged; and nobody takes the step before all stages have their sums, on disk where the group
// has one: then a stage that loses all its peers while another takes the step can take it as well, once one is back.

namespace causeway::inline CAUSEWAY_ABI {

/// Threading: as elastic_group.
class swarm_group final : public elastic_group {
 public:
  /// `stage`: the membership of the peers that hold the same stage; a quota and a budget of 0 fit it, since samples are not
  /// handed out by it.
  swarm_group(std::shared_ptr<elastic_group> stage, std::shared_ptr<parallel::swarm_round> swarm)
      : stage_{std::move(stage)}, swarm_{std::move(swarm)} {}
  /// With a disk, where `folder` is this stage's: a step costs one write of the stage's gradient more, before the other
  /// stages hear of it. Peers that take local steps write none (docs/design/swarm.md, L7).
  swarm_group(std::shared_ptr<elastic_group> stage, std::shared_ptr<parallel::swarm_round> swarm, io::any_storage disk,
              const std::string& folder)
      : swarm_group{std::move(stage), std::move(swarm)} {
    states_.emplace(disk, folder + "/rounds");
    if (swarm_->options().local_steps == 0) sums_.emplace(std::move(disk), folder + "/sums");
  }

  [[nodiscard]] std::uint64_t identity() const override { return stage_->identity(); }
  [[nodiscard]] std::uint64_t round() const override { return stage_->round(); }
  [[nodiscard]] std::uint64_t parent() const override { return stage_->parent(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return stage_->state_hash(); }
  [[nodiscard]] std::uint64_t contributed() const override { return UINT64_MAX; }  // nothing is left over
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override {
    return stage_->draw(skipped, count);
  }
  [[nodiscard]] bool budget_used() const override { return stage_->budget_used(); }
  void leave() override { stage_->leave(); }
  [[nodiscard]] bool exchange_waits() const override { return stage_->exchange_waits(); }

  result<void> open(shared_state state, thread_pool& pool) override {
    state.adopted = [this, inner = std::move(state.adopted)](std::span<const float>) {
      replaced_ = true;
      swarm_->replaced();
      if (inner) inner({});
    };
    state.replay = nullptr;  // a stage's step depends on the other stages
    const std::size_t parameters = state.parts.empty() ? 0 : state.parts.front().size() / sizeof(float);
    parts_ = state.parts;
    adopted_ = state.adopted;
    CAUSEWAY_TRY(stage_->open(std::move(state), pool));
    replaced_ = false;
    recall_sums(parameters);
    swarm_->committed(true);
    return {};
  }

  result<round_entry> enter(std::uint64_t) override {
    CAUSEWAY_TRY(swarm_->complete([this] { return stage_->exchange_waits(); }));
    CAUSEWAY_ASSIGN(entry_, stage_->enter(1 + swarm_->contributed()));
    if (replaced_) return fail(errc::cancelled, "swarm", "the others of this stage have finished the step");
    CAUSEWAY_ASSIGN(entry_.share, divide());
    return entry_;
  }

  result<void> exchanged() override {
    CAUSEWAY_TRY(keep_sum());
    CAUSEWAY_ASSIGN(const double squares, swarm_->all_summed());
    CAUSEWAY_TRY(agree_on_norm(squares));
    return stage_->exchanged();
  }

  result<verdict> settle(const result<void>& outcome, bool candidate) override {
    if (!outcome && outcome.error().code == errc::non_finite) return mend(outcome.error());
    if (outcome && candidate && !is_sound()) {
      return mend(fail(errc::non_finite, "this peer", "its parameters are not finite after the step"));
    }
    return judge(outcome, candidate);
  }

 private:
  // What a sum was made of, and where it leads from.
  struct kept_sum {
    std::uint64_t step = 0;
    double squares = 0;
    std::uint64_t state = 0;
  };

  result<verdict> judge(const result<void>& outcome, bool candidate) {
    CAUSEWAY_ASSIGN(const verdict judged, stage_->settle(outcome, candidate));
    if (judged == verdict::commit && swarm_->asked_to_move() && !std::exchange(leaves_, true)) stage_->leave();
    if (judged == verdict::commit && outcome) spoilt_ = 0;
    // Gradients of a step that others have finished are worth nothing on top of it.
    const bool adopted = std::exchange(replaced_, false);
    if (!adopted && judged != verdict::commit) return judged;
    swarm_->committed(adopted);
    return verdict::commit;
  }

  // This peer alone came to values that are not finite: its share goes to others, and it goes back to the committed state,
  // as if it had been started again. Where that does not help, all would come to the same.
  result<verdict> mend(const error& why) {
    if (++spoilt_ > most_spoilt) {
      return fail(
          errc::non_finite, why.where,
          why.message + ", " + std::to_string(most_spoilt) +
              " times from a sound state: lower the learning rate, clip gradients, or look at this machine's memory");
    }
    swarm_->throw_away();
    const result<void> reason = fail(errc::corrupt, why.where, why.message);
    CAUSEWAY_ASSIGN(const verdict judged, judge(reason, false));
    if (judged == verdict::commit) return judged;  // the others' state is here
    if (!is_sound() && states_) (void)states_->load(stage_->round(), stage_->state_hash(), parts_);
    if (is_sound()) {
      adopted_({});
      replaced_ = false;
      swarm_->committed(true);
      return verdict::commit;
    }
    return fail(
        errc::non_finite, why.where,
        why.message + ", and the committed state is not on this peer's disk; start it again, and it takes the others'");
  }

  // Of the shared parameters, which come first.
  [[nodiscard]] bool is_sound() const {
    const auto floats = parts_.empty() ? std::span<const std::byte>{} : std::span<const std::byte>{parts_.front()};
    for (std::size_t at = 0; at + sizeof(float) <= floats.size(); at += sizeof(float)) {
      float v = 0;
      std::memcpy(&v, floats.data() + at, sizeof v);
      if (!std::isfinite(v)) return false;
    }
    return true;
  }

  result<void> keep_sum() {
    CAUSEWAY_ASSIGN(const parallel::swarm_sum sum, swarm_->keep_sum());
    if (!sums_) return {};
    kept_sum head{sum.step, sum.squares, stage_->state_hash()};
    const std::span<std::byte> parts[] = {std::as_writable_bytes(std::span{&head, 1}), std::as_writable_bytes(sum.values)};
    return sums_->save(run_of_sums(), sum.step, run_of_sums(), parts);
  }

  // A sum on top of the state that this peer has is what it makes the next step with; of one before it others may ask.
  // Without one, or with one that is torn, the micro-batches are computed again, if they can be.
  void recall_sums(std::size_t parameters) {
    if (!sums_) return;
    const auto steps = sums_->rounds();
    if (!steps) return;
    for (const std::uint64_t step : *steps) {
      kept_sum head;
      std::vector<float> values(parameters);
      const std::span<std::byte> parts[] = {std::as_writable_bytes(std::span{&head, 1}),
                                            std::as_writable_bytes(std::span{values})};
      if (!sums_->load(step, run_of_sums(), parts)) continue;
      const bool next = head.state == stage_->state_hash();
      swarm_->restore_sum({head.step, head.squares, next ? std::span{values} : std::span<float>{}});
    }
  }
  [[nodiscard]] std::uint64_t run_of_sums() const { return mix(swarm_->options().run, swarm_->options().stage); }

  // Everybody's holdings go to everybody: M bits each.
  result<double> divide() {
    const parallel::swarm_holding mine = swarm_->holding();
    const auto bytes = parallel::encode(mine);
    const std::size_t peers = entry_.transport->size();
    std::vector<std::vector<std::byte>> all(peers);
    if (peers > 1) {
      CAUSEWAY_TRY(
          collective::all_gather(*entry_.transport, name(0), bytes, most_bytes, all, {.deadline = entry_.deadline}));
    }
    std::vector<parallel::swarm_holding> holdings;
    for (std::size_t p = 0; p < peers; ++p) {
      if (p == entry_.transport->self()) {
        holdings.push_back(mine);
        continue;
      }
      auto h = parallel::decode_holding(all[p]);
      if (!h) return h.error();
      holdings.push_back(std::move(*h));
    }
    return swarm_->take_part(holdings, entry_.transport->self());
  }

  // Peers of a stage may have heard of other stages at different moments; one word counts, so that they step alike. The
  // exchange's deadline does not hold here, since the other stages take the time that they take; but once this peer has
  // heard of all of them its mates have too, or soon will. Who is lost, or hangs for longer than that ever took, ends the
  // wait.
  result<void> agree_on_norm(double squares) {
    const time_point begin = swarm_->now();
    auto outcome = exchange_norms(squares, norm_times_.deadline(begin));
    if (outcome) norm_times_.observe(swarm_->now() - begin);
    if (!outcome && outcome.error().code == errc::timeout) norm_times_.overdue(swarm_->now() - begin);
    return outcome;
  }
  result<void> exchange_norms(double squares, time_point deadline) {
    std::vector<double> all(entry_.transport->size(), squares);
    if (all.size() > 1) {
      CAUSEWAY_TRY(collective::all_gather(*entry_.transport, name(1), std::as_bytes(std::span{&squares, 1}),
                                          std::as_writable_bytes(std::span{all}), {.deadline = deadline}));
    }
    if (!std::isfinite(all[0]) || all[0] < 0) return fail(errc::protocol, "peer 0", "it sent a norm that is none");
    swarm_->agreed(all[0]);
    return {};
  }

  [[nodiscard]] net::message_id name(std::uint32_t part) const {
    return {.channel = collective::channels::state + part, .step = entry_.round, .parent = entry_.parent};
  }

  static constexpr std::uint32_t most_spoilt = 3;
  static constexpr std::size_t most_bytes = (parallel::swarm_wire::most_micro_batches / 8) + 64;

  std::shared_ptr<elastic_group> stage_;
  std::shared_ptr<parallel::swarm_round> swarm_;
  std::optional<membership::round_store> sums_;
  std::optional<membership::round_store> states_;        // as the membership keeps them
  std::vector<std::span<std::byte>> parts_;              // of the shared state
  std::function<void(std::span<const float>)> adopted_;  // shared_state::adopted
  std::uint32_t spoilt_ = 0;                             // times in a row that this peer came to values that are not finite
  round_entry entry_;
  net::arrival_statistics norm_times_{{.floor = std::chrono::seconds{10}}};
  bool leaves_ = false;
  bool replaced_ = false;  // the shared state was, since the last settle
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_SWARM_GROUP_HPP

// ---- causeway/compress/codec.hpp ----
#ifndef CAUSEWAY_COMPRESS_CODEC_HPP
#define CAUSEWAY_COMPRESS_CODEC_HPP

// How a row of f32 values becomes bytes and values again. A codec is a small value without state: what it gives depends on
// its options and its input alone, to the bit, whatever the thread count or the instruction set. All numbers on the wire
// are little-endian.

namespace causeway::inline CAUSEWAY_ABI::compress {

static_assert(std::endian::native == std::endian::little, "codecs write numbers as they lie in memory");

/// What a codec says about itself, for rules that decide which combinations are allowed.
struct codec_traits {
  bool lossy = true;            ///< decode(encode(x)) may differ from x: feed the residual back, or lose it
  bool additive = false;        ///< sums of encoded values can be made without decoding them
  bool per_block = false;       ///< values share a scale with their neighbours, so blocks must not be cut
  bool sparse = false;          ///< a message may leave values out (messages only, see message.hpp; so the next two)
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
concept Codec = std::copyable<C> &&
    requires(const C& c, thread_pool& pool, std::size_t n, std::span<const float> values, std::span<std::byte> room,
             std::span<const std::byte> bytes, std::span<float> decoded) {
  { C::name } -> std::convertible_to<std::string_view>;
  { C::traits } -> std::convertible_to<codec_traits>;
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

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_CODEC_HPP

// ---- causeway/compress/element.hpp ----
#ifndef CAUSEWAY_COMPRESS_ELEMENT_HPP
#define CAUSEWAY_COMPRESS_ELEMENT_HPP

// What codecs have in common: where decoded values go (they replace or are added), and the codecs that store every value
// on its own, as another element type (none, bf16 and fp16).

namespace causeway::inline CAUSEWAY_ABI::compress::detail {

/// Whether any lane was set.
CAUSEWAY_ALWAYS_INLINE bool any_lane(const kernels::detail::i32x16& mask) {
  std::int32_t all = 0;
  for (int lane = 0; lane < 16; ++lane) all |= mask[lane];
  return all != 0;
}

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

/// True when all values are finite.
struct decode_elements {
  static constexpr bool exact = true;
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static bool run(const Element* from, float* to, std::int64_t count) {
    kernels::detail::u32x16 sums{};  // an exponent of all ones becomes a sign bit by adding one to it
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      sums |= (reinterpret_cast<kernels::detail::u32x16>(v) & 0x7F800000U) + 0x00800000U;
      kernels::detail::store(to + i, v, part);
    });
    return !any_lane(reinterpret_cast<kernels::detail::i32x16>(sums) >> 31);
  }
};

/// Without converting them: not finite is what has all bits of the exponent set.
struct finite_elements {
  static constexpr bool exact = true;
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static bool run(const Element* from, std::int64_t count) {
    using integer = std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>;
    constexpr integer exponent = std::is_same_v<Element, float>            ? 0x7F800000U
                                 : std::is_same_v<Element, causeway::bf16> ? 0x7F80U
                                                                           : 0x7C00U;
    constexpr integer unit = exponent & (0U - exponent);  // adding its lowest bit to all ones overflows
    using vector [[gnu::vector_size(16 * sizeof(integer))]] = integer;
    vector sums{};
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      vector bits;
      std::memcpy(&bits, from + i, sizeof bits);
      sums |= (bits & exponent) + unit;
    }
    integer all = 0;
    for (int lane = 0; lane < 16; ++lane) all = static_cast<integer>(all | sums[lane]);
    for (; i < count; ++i) {
      integer bits = 0;
      std::memcpy(&bits, from + i, sizeof bits);
      all = static_cast<integer>(all | ((bits & exponent) + unit));
    }
    return all >> (8 * sizeof(integer) - 1) == 0;
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

template <class Element>
std::size_t encode_as(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                      kernels::simd_level level) {
  CAUSEWAY_EXPECT(room.size() >= values.size() * sizeof(Element));
  auto* const to = reinterpret_cast<Element*>(room.data());
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(values.size()), [&](index_range r) {
    kernels::detail::dispatch<encode_elements>(level, values.data() + r.begin, to + r.begin, r.size());
  });
  return values.size() * sizeof(Element);
}

template <class Element>
result<void> decode_as(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                       kernels::simd_level level, std::string_view codec) {
  if (bytes.size() != values.size() * sizeof(Element)) {
    return wrong_length(codec, bytes.size(), values.size() * sizeof(Element));
  }
  const auto* const from = reinterpret_cast<const Element*>(bytes.data());
  std::atomic<bool> finite{true};
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(values.size()), [&](index_range r) {
    const bool good = kernels::detail::dispatch<decode_elements>(level, from + r.begin, values.data() + r.begin, r.size());
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  if (!finite.load(std::memory_order_relaxed)) return not_finite(codec);
  return {};
}

/// Two passes over the bytes: nothing is added before all were found finite.
template <class Element>
result<void> decode_add_as(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                           kernels::simd_level level, std::string_view codec) {
  if (bytes.size() != sum.size() * sizeof(Element)) {
    return wrong_length(codec, bytes.size(), sum.size() * sizeof(Element));
  }
  const auto* const from = reinterpret_cast<const Element*>(bytes.data());
  const auto count = static_cast<std::int64_t>(sum.size());
  std::atomic<bool> finite{true};
  kernels::detail::for_elements(pool, count, [&](index_range r) {
    const bool good = kernels::detail::dispatch<finite_elements>(level, from + r.begin, r.size());
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  if (!finite.load(std::memory_order_relaxed)) return not_finite(codec);
  kernels::detail::for_elements(pool, count, [&](index_range r) {
    kernels::detail::dispatch<add_elements>(level, from + r.begin, sum.data() + r.begin, r.size(), add_weighted{weight});
  });
  return {};
}

}  // namespace causeway::inline CAUSEWAY_ABI::compress::detail

#endif  // CAUSEWAY_COMPRESS_ELEMENT_HPP

// ---- causeway/compress/none.hpp ----
#ifndef CAUSEWAY_COMPRESS_NONE_HPP
#define CAUSEWAY_COMPRESS_NONE_HPP

// The values as they are. Exact, four bytes each; there so that "no compression" is a codec like any other.

namespace causeway::inline CAUSEWAY_ABI::compress {

/// 4 n bytes. Loses nothing.
class none {
 public:
  static constexpr std::string_view name = "none";
  static constexpr codec_traits traits{.lossy = false};
  static constexpr bool raw = true;

  [[nodiscard]] static constexpr std::size_t block() noexcept { return 1; }
  [[nodiscard]] static constexpr std::size_t encoded_size(std::size_t n) noexcept { return n * 4; }

  static std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                            kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::encode_as<float>(pool, values, room, level);
  }
  static result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                             kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::decode_as<float>(pool, bytes, values, level, name);
  }
  static result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                                 kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::decode_add_as<float>(pool, bytes, sum, weight, level, name);
  }
};
static_assert(AddingCodec<none>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_NONE_HPP

// ---- causeway/kernels/optimizer.hpp ----
#ifndef CAUSEWAY_KERNELS_OPTIMIZER_HPP
#define CAUSEWAY_KERNELS_OPTIMIZER_HPP

// Parameter updates in one pass over memory. Exact kernels: every operation is rounded by itself, so replicas that apply
// the same update stay equal bit for bit on different processors. Each update exists twice: for the calling thread, over
// one piece, and for the pool. A piece's padding (zero value, zero gradient) stays zero.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// One step of AdamW, in the order of operations of PyTorch's.
struct adamw_coefficients {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;
  float bias_correction1 = 1.0F;  ///< 1 - beta1^t
  float bias_correction2 = 1.0F;  ///< 1 - beta2^t
  float gradient_scale = 1.0F;    ///< multiplies the gradient first (1/batch, clipping)
};

/// One step of SGD, with momentum and Nesterov's form of it.
struct sgd_coefficients {
  float learning_rate = 1e-2F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  float gradient_scale = 1.0F;
};

namespace detail {

/// What is computed from the coefficients once a piece.
struct adamw_factors {
  float gradient_scale, beta1, rest1, beta2, rest2, decay, step, root_scale, epsilon;
};

inline adamw_factors factors_of(const adamw_coefficients& c) noexcept {
  const double root = __builtin_sqrt(static_cast<double>(c.bias_correction2));
  return {c.gradient_scale,
          c.beta1,
          static_cast<float>(1.0 - static_cast<double>(c.beta1)),
          c.beta2,
          static_cast<float>(1.0 - static_cast<double>(c.beta2)),
          static_cast<float>(1.0 - static_cast<double>(c.learning_rate) * static_cast<double>(c.weight_decay)),
          static_cast<float>(static_cast<double>(c.learning_rate) / static_cast<double>(c.bias_correction1)),
          static_cast<float>(1.0 / root),
          c.epsilon};
}

struct adamw_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, float* v, std::int64_t count,
                                         adamw_factors c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient, first, second;
      load(value, p + i, part);
      load(gradient, g + i, part);
      load(first, m + i, part);
      load(second, v + i, part);
      gradient *= c.gradient_scale;
      first = c.beta1 * first + c.rest1 * gradient;
      second = c.beta2 * second + c.rest2 * (gradient * gradient);
      store(m + i, first, part);
      store(v + i, second, part);
      square_root(second);
      value = value * c.decay - c.step * (first / (second * c.root_scale + c.epsilon));
      store(p + i, value, part);
    });
  }
};

struct sgd_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, std::int64_t count, sgd_coefficients c) {
    const bool decays = c.weight_decay != 0.0F;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient;
      load(value, p + i, part);
      load(gradient, g + i, part);
      gradient *= c.gradient_scale;
      if (decays) gradient += c.weight_decay * value;
      store(p + i, value - c.learning_rate * gradient, part);
    });
  }
};

template <bool Nesterov>
struct momentum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* u, std::int64_t count, sgd_coefficients c) {
    const bool decays = c.weight_decay != 0.0F;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, gradient, velocity;
      load(value, p + i, part);
      load(gradient, g + i, part);
      load(velocity, u + i, part);
      gradient *= c.gradient_scale;
      if (decays) gradient += c.weight_decay * value;
      velocity = c.momentum * velocity + gradient;
      store(u + i, velocity, part);
      if constexpr (Nesterov) velocity = gradient + c.momentum * velocity;
      store(p + i, value - c.learning_rate * velocity, part);
    });
  }
};

struct muon_momentum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* x, const float* g, float* u, std::int64_t count, float momentum,
                                         float gradient_scale) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 gradient, velocity;
      load(gradient, g + i, part);
      load(velocity, u + i, part);
      gradient *= gradient_scale;
      velocity = momentum * velocity + gradient;
      store(u + i, velocity, part);
      store(x + i, gradient + momentum * velocity, part);
    });
  }
};

}  // namespace detail

/// AdamW (Loshchilov and Hutter 2019): m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²;
/// p = p·(1 - lr·wd) - lr·mhat / (sqrt(vhat) + epsilon). Moves 28 bytes an element. On the calling thread.
inline void adamw_update(float* p, const float* g, float* m, float* v, std::int64_t count, const adamw_coefficients& c,
                         simd_level level = detect_simd_level()) {
  detail::dispatch<detail::adamw_kernel>(level, p, g, m, v, count, detail::factors_of(c));
}

inline void adamw_update(thread_pool& pool, float* p, const float* g, float* m, float* v, std::int64_t count,
                         const adamw_coefficients& c, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    adamw_update(p + part.begin, g + part.begin, m + part.begin, v + part.begin, part.size(), c, level);
  });
}

/// p -= lr·(g + wd·p). Exactly p - g for a rate of 1 and no decay. Moves 12 bytes an element. On the calling thread.
inline void sgd_update(float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                       simd_level level = detect_simd_level()) {
  detail::dispatch<detail::sgd_kernel>(level, p, g, count, c);
}

inline void sgd_update(thread_pool& pool, float* p, const float* g, std::int64_t count, const sgd_coefficients& c,
                       simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count,
                       [&](index_range part) { sgd_update(p + part.begin, g + part.begin, part.size(), c, level); });
}

/// u = mu·u + g + wd·p; p -= lr·u. Moves 20 bytes an element. On the calling thread.
inline void momentum_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                            simd_level level = detect_simd_level()) {
  detail::dispatch<detail::momentum_kernel<false>>(level, p, g, u, count, c);
}

inline void momentum_update(thread_pool& pool, float* p, const float* g, float* u, std::int64_t count,
                            const sgd_coefficients& c, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    momentum_update(p + part.begin, g + part.begin, u + part.begin, part.size(), c, level);
  });
}

/// PyTorch's Nesterov: g += wd·p; u = mu·u + g; p -= lr·(g + mu·u). Moves 20 bytes an element. On the calling thread.
inline void nesterov_update(float* p, const float* g, float* u, std::int64_t count, const sgd_coefficients& c,
                            simd_level level = detect_simd_level()) {
  detail::dispatch<detail::momentum_kernel<true>>(level, p, g, u, count, c);
}

inline void nesterov_update(thread_pool& pool, float* p, const float* g, float* u, std::int64_t count,
                            const sgd_coefficients& c, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    nesterov_update(p + part.begin, g + part.begin, u + part.begin, part.size(), c, level);
  });
}

/// The first half of Muon's step: u = mu·u + g; x = g + mu·u. Moves 20 bytes an element.
inline void muon_momentum(thread_pool& pool, float* x, const float* g, float* u, std::int64_t count, float momentum,
                          float gradient_scale, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::muon_momentum_kernel>(level, x + part.begin, g + part.begin, u + part.begin, part.size(),
                                                   momentum, gradient_scale);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_OPTIMIZER_HPP

// ---- causeway/optim/nesterov.hpp ----
#ifndef CAUSEWAY_OPTIM_NESTEROV_HPP
#define CAUSEWAY_OPTIM_NESTEROV_HPP

// Nesterov's momentum in PyTorch's form, the usual outer optimizer of periodic averaging (DiLoCo, Douillard et al. 2023:
// rate 0.7, momentum 0.9).

namespace causeway::inline CAUSEWAY_ABI::optim {

struct nesterov_options {
  float momentum = 0.9F;
  float weight_decay = 0.0F;  ///< added to the gradient; not for vectors
};

/// g += wd·p; u = momentum·u + g; p -= lr·(g + momentum·u). Moves 20 bytes a parameter, keeps 4.
class nesterov {
 public:
  static constexpr std::string_view name = "nesterov";

  explicit nesterov(nesterov_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const nesterov_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) { velocity_ = state_buffer{length}; }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(velocity_.size() == static_cast<std::int64_t>(view.values.size()));
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      const kernels::sgd_coefficients c{step.learning_rate, options_.momentum, decay ? options_.weight_decay : 0.0F,
                                        step.gradient_scale};
      kernels::nesterov_update(view.values.data() + begin, view.gradients.data() + begin, velocity_.data() + begin, count,
                               c);
    });
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(velocity_);
  }

 private:
  nesterov_options options_;
  state_buffer velocity_;
};

static_assert(Optimizer<nesterov>);

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_NESTEROV_HPP

// ---- causeway/comm/periodic.hpp ----
#ifndef CAUSEWAY_COMM_PERIODIC_HPP
#define CAUSEWAY_COMM_PERIODIC_HPP

// Local steps between exchanges: every peer takes H inner steps alone, then the average of what all peers changed is handed
// to an outer optimizer. Local SGD and FedAvg (outer SGD with rate 1; Stich 2019, McMahan et al. 2017) and DiLoCo (outer
// Nesterov; Douillard et al. 2023) are instances.

namespace causeway::inline CAUSEWAY_ABI::comm {

/// How the pseudo-gradient is found.
enum class pseudo_gradient : std::uint8_t {
  difference,     ///< anchor − local parameters: no memory of its own, rounds once at the size of a parameter
  sum_of_updates  ///< what the inner optimizer subtracted, summed: one more buffer, rounds at the size of an update
};

struct periodic_options {
  std::uint32_t local_steps = 500;  ///< H, inner steps between exchanges
  float outer_learning_rate = 0.7F;
  pseudo_gradient content = pseudo_gradient::difference;
};

/// Every H inner steps:  Δ_m = θ − θ_m;  Δ = (1/n) Σ Δ_m;  θ ← outer(θ, Δ);  θ_m ← θ.   (DiLoCo, algorithm 1; the sign is
/// old − new, so that a descending outer optimizer moves toward the replicas.) Inner optimizer state stays local.
///
/// State: the anchor θ (P values) and the outer optimizer's. An outer optimizer on a device (cuda/nesterov.hpp) has the
/// anchor in its memory, and with a codec of the device (cuda/codec.hpp) only encoded bytes cross to the host. Cost per
/// round: one exchange of P values through `Codec`, 2(n−1)/n · P · bytes-per-value sent and received by each peer. A failed
/// exchange changes nothing: Δ_m is computed anew from θ and θ_m when the hook is called again. With H = 1, inner SGD,
/// outer SGD(1) this is `every_step`: bit for bit with sum_of_updates when the learning rate is a power of two (then
/// scaling commutes with rounding).
template <class Outer = optim::nesterov, class Codec = compress::none>
class periodic {
  static_assert(optim::Optimizer<Outer>,
                "causeway-P9: comm::periodic is given an outer optimizer that is none: it lacks a member of "
                "optim::Optimizer. Optimizers are in optim/. docs/reference/rules.md#p9");
  static_assert(collective::Encoding<Codec>,
                "causeway-P8: comm::periodic is given a codec that is none: it lacks a member of compress::Codec. "
                "Codecs are in compress/. docs/reference/rules.md#p8");
  static constexpr bool own_memory = requires(const Outer& o) { o.memory(); };
  using anchor_type = std::conditional_t<own_memory, std::vector<float, source_allocator<float>>, std::vector<float>>;

 public:
  static constexpr std::string_view name = "periodic";
  static constexpr comm_traits traits{.tolerates = peers::elastic, .prepares_anew = true};
  static constexpr std::uint32_t state_version = 2;

  explicit periodic(periodic_options options = {}, Outer outer = Outer{}, Codec codec = Codec{})
      : options_{options}, outer_{std::move(outer)}, codec_{std::move(codec)} {
    if constexpr (own_memory) anchor_ = anchor_type{source_allocator<float>{outer_.memory()}};
  }

  result<void> start(auto& ctx) {
    if (options_.local_steps == 0) {
      return fail(errc::invalid_argument, "periodic", "local_steps is 0; set it to 1 or more");
    }
    const auto parameters = ctx.parameters();
    if (anchor_.size() != parameters.size()) {  // not restored from a checkpoint
      anchor_.assign(parameters.begin(), parameters.end());
      outer_.reset(static_cast<std::int64_t>(parameters.size()));
      since_ = 0;
    }
    if (options_.content == pseudo_gradient::sum_of_updates) {
      updates_.resize(parameters.size());
      CAUSEWAY_TRY(ctx.track_updates(updates_));
    }
    return {};
  }

  result<void> before_inner_step(auto&) { return {}; }

  result<void> after_inner_step(auto& ctx) {
    if (since_ + 1 < options_.local_steps) {
      ++since_;
      return {};
    }
    return outer_step(ctx);
  }

  /// Brings the replicas together when training ends in the middle of a round.
  result<void> finish(auto& ctx) { return since_ == 0 ? result<void>{} : outer_step(ctx); }

  void serialize(auto& ar) { ar(since_, anchor_, updates_, outer_, outer_steps_); }

  void shared(auto& ar) { ar(anchor_, outer_, outer_steps_); }

  /// Local progress since the last exchange moves along with the anchor: θ_m ← θ_m + (θ_new − θ_old), so that Δ_m stays.
  void adopt(auto& ctx, std::span<const float> previous) {
    const auto local = ctx.parameters();
    if (previous.empty()) {
      std::copy(anchor_.begin(), anchor_.end(), local.begin());
      std::fill(updates_.begin(), updates_.end(), 0.0F);
      since_ = 0;
      ctx.resume_at(outer_steps_ * options_.local_steps);
    } else {
      for (std::size_t i = 0; i < local.size(); ++i) local[i] += anchor_[i] - previous[i];
    }
    ctx.parameters_changed();
  }

  /// The gradients are the mean of a round: the outer step that the others took with it. `adopt` moves the live parameters.
  result<void> replay(auto& ctx) {
    step_anchor(ctx);
    return {};
  }

  result<void> catch_up(auto& ctx) {
    CAUSEWAY_TRY(outer_step(ctx));
    ctx.resume_at(outer_steps_ * options_.local_steps);
    return {};
  }

  [[nodiscard]] std::uint32_t steps_since_exchange() const noexcept { return since_; }
  [[nodiscard]] const periodic_options& options() const noexcept { return options_; }
  /// θ: what all peers have held alike since the last exchange. Where the outer optimizer has a memory of its own, there.
  [[nodiscard]] std::span<const float> anchor() const noexcept { return anchor_; }

 private:
  // θ ← outer(θ, Δ), with Δ in the gradients.
  void step_anchor(auto& ctx) {
    parameter_view view = ctx.view();
    view.values = anchor_;
    view.gradients = ctx.gradients();
    outer_.step(ctx.pool(), view, {.learning_rate = options_.outer_learning_rate});
    ++outer_steps_;
  }

  result<void> outer_step(auto& ctx) {
    const auto local = ctx.parameters();
    const auto delta = ctx.gradients();  // free between inner steps, so it carries the pseudo-gradient
    if (options_.content == pseudo_gradient::sum_of_updates) {
      std::copy(updates_.begin(), updates_.end(), delta.begin());
    } else {
      CAUSEWAY_TRY(ctx.subtract(delta, anchor_, local));
    }
    CAUSEWAY_TRY(ctx.mean(codec_, delta));

    step_anchor(ctx);
    CAUSEWAY_TRY(ctx.copy(local, anchor_));
    std::fill(updates_.begin(), updates_.end(), 0.0F);
    since_ = 0;
    ctx.parameters_changed();
    ctx.commit_round();
    return {};
  }

  periodic_options options_;
  Outer outer_;
  Codec codec_;
  anchor_type anchor_;
  std::vector<float> updates_;
  std::uint32_t since_ = 0;  ///< inner steps since the last exchange
  std::uint64_t outer_steps_ = 0;
};
static_assert(CommunicationPolicy<periodic<>>);

}  // namespace causeway::inline CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_PERIODIC_HPP

// ---- causeway/optim/adamw.hpp ----
#ifndef CAUSEWAY_OPTIM_ADAMW_HPP
#define CAUSEWAY_OPTIM_ADAMW_HPP

// AdamW (Loshchilov and Hutter 2019), the usual inner optimizer: one fused pass over values, gradients and both moments.

namespace causeway::inline CAUSEWAY_ABI::optim {

struct adamw_options {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;      ///< outside the square root
  float weight_decay = 0.1F;  ///< decoupled; not for vectors
};

/// Counts steps and knows the bias corrections 1 - beta^t. The powers are products, not std::pow, so that they are the
/// same bits on every machine.
class adam_clock {
 public:
  /// The coefficients of the next step; counts it.
  kernels::adamw_coefficients advance(const adamw_options& o, const step_options& step) noexcept {
    ++steps_;
    power1_ *= static_cast<double>(o.beta1);
    power2_ *= static_cast<double>(o.beta2);
    return {step.learning_rate,
            o.beta1,
            o.beta2,
            o.epsilon,
            o.weight_decay,
            static_cast<float>(1.0 - power1_),
            static_cast<float>(1.0 - power2_),
            step.gradient_scale};
  }

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /// As after `steps` steps.
  void resume(const adamw_options& o, std::uint64_t steps) noexcept {
    *this = {};
    while (steps_ < steps) advance(o, {});
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(steps_, power1_, power2_);
  }

 private:
  std::uint64_t steps_ = 0;
  double power1_ = 1.0;
  double power2_ = 1.0;
};

/// m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²; p -= lr·(mhat / (sqrt(vhat) + epsilon) + wd·p). Moves 28 bytes a parameter,
/// keeps 8.
class adamw {
 public:
  static constexpr std::string_view name = "adamw";

  explicit adamw(adamw_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const adamw_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return clock_.steps(); }
  /// First and second moments, in the layout of the parameters: for policies that average them over peers.
  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept {
    const auto length = static_cast<std::size_t>(first_.size());
    return {std::span{first_.data(), length}, std::span{second_.data(), length}};
  }

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = state_buffer{length};
    clock_ = {};
  }
  /// As after `steps` steps whose moments are all zero.
  void resume(std::int64_t length, std::uint64_t steps) {
    reset(length);
    clock_.resume(options_, steps);
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    const kernels::adamw_coefficients decayed = clock_.advance(options_, step);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      kernels::adamw_update(view.values.data() + begin, view.gradients.data() + begin, first_.data() + begin,
                            second_.data() + begin, count, decay ? decayed : plain);
    });
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(first_, second_, clock_);
  }

 private:
  adamw_options options_;
  state_buffer first_;
  state_buffer second_;
  adam_clock clock_;
};

static_assert(Optimizer<adamw>);

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_ADAMW_HPP

// ---- causeway/parallel/micro_batches.hpp ----
#ifndef CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP
#define CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP

// How a batch may be cut into micro-batches, and what is said where it cannot.

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// A step has fewer micro-batches than 2 to the power of this: message ids hold both numbers.
inline constexpr std::uint32_t most_micro_batch_bits = 20;

/// errc::invalid_argument unless `count` is from 1 to 2^most_micro_batch_bits - 1. `policy`: who says so.
[[nodiscard]] inline result<void> check_micro_batches(std::string_view policy, std::int64_t count) {
  if (count >= 1 && count < std::int64_t{1} << most_micro_batch_bits) return {};
  return fail(errc::invalid_argument, std::string{policy},
              std::to_string(count) + " micro-batches; choose at least 1, below a million");
}

/// errc::invalid_argument unless the batch has sequences that make `pieces` equal micro-batches.
[[nodiscard]] inline result<void> check_batch(std::string_view policy, const batch& b, std::int64_t pieces) {
  if (pieces >= 1 && b.sequences >= 1 && b.sequences % pieces == 0) return {};
  return fail(errc::invalid_argument, std::string{policy},
              "a batch of " + std::to_string(b.sequences) + " sequences cannot be cut into " + std::to_string(pieces) +
                  " equal micro-batches; choose a divisor");
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_MICRO_BATCHES_HPP

// ---- causeway/parallel/data_parallel.hpp ----
#ifndef CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP
#define CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP

// One full replica per peer.

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct data_parallel_options {
  std::int64_t micro_batches = 1;  ///< pieces that a batch is cut into, one after the other, to save memory
};

/// Gradient of the mean loss over the peer's batch, accumulated over micro-batches of equal size. Sends nothing. Memory:
/// activations of one micro-batch. The result does not depend on the other peers.
class data_parallel {
 public:
  static constexpr std::string_view name = "data_parallel";
  static constexpr parallel_traits traits{};
  static constexpr std::uint32_t state_version = 1;

  explicit data_parallel(data_parallel_options options = {}) : options_{options} {}

  result<void> start(auto&) { return {}; }

  result<double> forward_backward(auto& ctx, const batch& b) {
    const std::int64_t pieces = options_.micro_batches;
    CAUSEWAY_TRY(check_batch(name, b, pieces));
    const std::int64_t count = b.sequences / pieces;
    const float scale = 1.0F / static_cast<float>(b.tokens());
    double loss = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      CAUSEWAY_ASSIGN(const double sum, ctx.forward_backward(b.slice(i * count, count), scale));
      loss += sum;
    }
    return loss / static_cast<double>(b.tokens());
  }

  result<float> norm(auto& ctx) { return ctx.own_norm(); }
  result<void> after_step(auto&) { return {}; }

  result<double> evaluate(auto& ctx, const batch& b) {
    CAUSEWAY_ASSIGN(const double sum, ctx.model().evaluate(b.inputs, b.targets, b.sequences));
    return sum / static_cast<double>(b.tokens());
  }

  void serialize(auto&) {}

 private:
  data_parallel_options options_;
};
static_assert(ParallelismPolicy<data_parallel>);

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP

// ---- causeway/policy/pick.hpp ----
#ifndef CAUSEWAY_POLICY_PICK_HPP
#define CAUSEWAY_POLICY_PICK_HPP

// Sorts a pack of policies into a trainer's slots by what they are, so that users write them in any order and leave out
// what they do not care about.

namespace causeway::inline CAUSEWAY_ABI::detail {

enum class kind { none, inner, comm, parallel, fault };

template <class P, class Traits>
concept HasTraits = requires {
  { P::traits } -> std::same_as<const Traits&>;
};

/// Which slot a type belongs to. Only the traits count, so that a policy with a misspelt hook still reaches its slot and is
/// refused there with the hook's name.
template <class P>
consteval kind kind_of() {
  if constexpr (HasTraits<P, comm_traits>) {
    return kind::comm;
  } else if constexpr (HasTraits<P, parallel_traits>) {
    return kind::parallel;
  } else if constexpr (HasTraits<P, fault_traits>) {
    return kind::fault;
  } else if constexpr (optim::Optimizer<P>) {
    return kind::inner;
  } else {
    return kind::none;
  }
}

template <kind K, class... Ps>
inline constexpr std::size_t count_of = (std::size_t{0} + ... + (kind_of<Ps>() == K ? 1U : 0U));

/// The first type of kind K in the pack, else Default.
template <kind K, class Default, class... Ps>
struct first_of {
  using type = Default;
};
template <kind K, class Default, class P, class... Ps>
struct first_of<K, Default, P, Ps...> {
  using type = typename std::conditional_t<kind_of<P>() == K, std::type_identity<P>, first_of<K, Default, Ps...>>::type;
};

template <kind K, class Default, class... Ps>
using pick = typename first_of<K, Default, Ps...>::type;

/// The model itself. Somebody who has not looked yet whether there is one gets an error, and only that one.
template <class M>
struct given_model {
  static constexpr bool is_result = false;
  using type = M;
  static M&& take(M& model) { return std::move(model); }
};
template <class M>
struct given_model<result<M>> {
  static constexpr bool is_result = true;
  using type = M;
  static M&& take(result<M>& model) { return std::move(*model); }
};

/// `M`, after checking the pack: a misspelt policy would otherwise be dropped silently in favour of a default.
template <class M, class... Ps>
struct claim {
  static_assert(
      ((kind_of<Ps>() != kind::none) && ...),
      "causeway-P0: a type given to the trainer is neither a policy nor an optimizer: it has no `traits` of a known "
      "kind. docs/reference/rules.md#p0");
  static_assert(count_of<kind::inner, Ps...> <= 1 && count_of<kind::comm, Ps...> <= 1 &&
                    count_of<kind::parallel, Ps...> <= 1 && count_of<kind::fault, Ps...> <= 1,
                "causeway-P4: two policies of one kind were given to a trainer; keep one. docs/reference/rules.md#p4");
  using type = M;
};

template <class M, class... Ps>
using claimed = typename claim<M, Ps...>::type;

/// Holds the policies given to make_trainer until each is taken by its slot.
template <class... Ps>
class bag {
 public:
  explicit bag(Ps... ps) : items_{std::move(ps)...} {}

  template <kind K, class Default>
  auto take() {
    using wanted = pick<K, Default, Ps...>;
    if constexpr (count_of < K, Ps... >> 0) {
      return std::move(std::get<wanted>(items_));
    } else {
      return wanted{};
    }
  }

 private:
  std::tuple<Ps...> items_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_POLICY_PICK_HPP

// ---- causeway/policy/rules.hpp ----
#ifndef CAUSEWAY_POLICY_RULES_HPP
#define CAUSEWAY_POLICY_RULES_HPP

// Which policies go together, as pure functions of their traits, and the one readable error for each mix that does not.
// docs/reference/rules.md explains every id; tests/compile_fail holds every message to its id.

namespace causeway::inline CAUSEWAY_ABI {

namespace rules {

/// A changing set of peers needs a communication policy that tolerates it.
constexpr bool c1(comm_traits c, fault_traits f) { return f.produces == peers::fixed || c.tolerates == peers::elastic; }

/// A stage must not stay without an owner.
constexpr bool c2(parallel_traits p, fault_traits f) {
  return !p.staged || f.produces == peers::fixed || p.reroutes || f.refills_stage;
}

/// A policy that needs the same step everywhere needs a parallelism that has one.
constexpr bool c3(comm_traits c, parallel_traits p) { return p.global_step || !c.needs_global_step; }

/// Stages that make the same steps must also make the same rounds, each in its own group of peers.
constexpr bool c4(comm_traits c, parallel_traits p) { return !p.staged || !p.global_step || c.rounds_by_steps; }

/// Parts of a gradient are worth nothing alone.
constexpr bool c5(comm_traits c, parallel_traits p) { return !p.shares_gradient || c.needs_global_step; }

/// What was prepared for an exchange must not be sent after parameters have moved again.
constexpr bool c6(comm_traits c, parallel_traits p) { return !p.computes_late || c.prepares_anew; }

}  // namespace rules

namespace detail {

template <class Comm, class Parallel, class Fault>
struct compatible {
  static_assert(rules::c1(Comm::traits, Fault::traits),
                "causeway-C1: this fault policy lets peers join and leave, but the communication policy needs a fixed set. "
                "Use comm::periodic, or fault::fail_stop. docs/reference/rules.md#c1");
  static_assert(rules::c2(Parallel::traits, Fault::traits),
                "causeway-C2: a lost peer would leave a pipeline stage without an owner. "
                "Use a parallelism that reroutes, or a fault policy that refills stages. docs/reference/rules.md#c2");
  static_assert(
      rules::c3(Comm::traits, Parallel::traits),
      "causeway-C3: this communication policy needs every peer to finish the same step, but stages run on their own "
      "time here. Use comm::periodic. docs/reference/rules.md#c3");
  static_assert(rules::c4(Comm::traits, Parallel::traits),
                "causeway-C4: the stages of a pipeline must make the same rounds, but here rounds come when peers are "
                "quick enough or "
                "have enough to say. Use a policy whose rounds come after a number of steps. docs/reference/rules.md#c4");
  static_assert(
      rules::c5(Comm::traits, Parallel::traits),
      "causeway-C5: each peer of a swarm computes a part of its stage's gradient, which must be summed in every step. "
      "Use comm::every_step. docs/reference/rules.md#c5");
  static_assert(rules::c6(Comm::traits, Parallel::traits),
                "causeway-C6: peers of a swarm with local steps compute what a lost peer had when their exchange is due, "
                "and step on it; "
                "what is exchanged must be made after that. Use comm::periodic. docs/reference/rules.md#c6");
};

struct unchecked {};

}  // namespace detail
}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_RULES_HPP

// ---- causeway/train/trainer.hpp ----
#ifndef CAUSEWAY_TRAIN_TRAINER_HPP
#define CAUSEWAY_TRAIN_TRAINER_HPP

// The training loop's one step, composed of policies. A step runs in four phases; a phase that fails is judged by the fault
// policy and, if it says so, done again from where it failed: gradients that were computed are never thrown away.

namespace causeway::inline CAUSEWAY_ABI {

namespace detail {
template <bool Valid, class Comm, class Parallel, class Fault>
using checked_if =
    std::conditional_t<Valid, compatible<Comm, Parallel, Fault>, unchecked>;  // rules run on real policies only
}

/// The host of a model, an inner optimizer and three policies. Use the alias `trainer`, or `make_trainer`.
/// Thread safety: one thread.
template <Model M, optim::Optimizer Inner, class Comm, class Parallel, class Fault>
class basic_trainer : detail::checked_if<CommunicationPolicy<Comm> && ParallelismPolicy<Parallel> && FaultPolicy<Fault>,
                                         Comm, Parallel, Fault> {
  static_assert(
      CommunicationPolicy<Comm>,
      "causeway-P1: not a communication policy; the note below names the missing hook. docs/reference/rules.md#p1");
  static_assert(ParallelismPolicy<Parallel>,
                "causeway-P2: not a parallelism policy; the note below names the missing hook. docs/reference/rules.md#p2");
  static_assert(FaultPolicy<Fault>,
                "causeway-P3: not a fault policy; the note below names the missing hook. docs/reference/rules.md#p3");

 public:
  using context_type = training_context<M, Inner>;
  using comm_type = Comm;

  explicit basic_trainer(M model, environment env = {}, trainer_options options = {}, Inner inner = Inner{},
                         Comm comm = Comm{}, Parallel parallel = Parallel{}, Fault fault = Fault{})
      : ctx_{std::move(model), std::move(inner), std::move(env), std::move(options), Fault::traits.retries},
        comm_{std::move(comm)},
        parallel_{std::move(parallel)},
        fault_{std::move(fault)} {}

  /// Call once before the first step, on all peers, also after restoring a checkpoint: checks that all start alike.
  result<void> start() {
    if constexpr (valid) {
      CAUSEWAY_TRY(parallel_.start(ctx_));
      if (!restored_ && !ctx_.elastic()) CAUSEWAY_TRY(ctx_.agree_on_start());
      CAUSEWAY_TRY(comm_.start(ctx_));
      if constexpr (elastic) return ctx_.open_membership(comm_);
      if (ctx_.elastic()) {
        return fail(
            errc::invalid_argument, std::string{Fault::name},
            "the environment has a membership, but this fault policy needs a fixed set of peers; use fault::quorum");
      }
    }
    return {};
  }

  /// The numbers of the samples that this peer trains on next: at most `count`, and none when the run's budget is used up.
  /// With fault::quorum they come from the committed ledger, every number once in the whole run, and a peer that has none
  /// left takes part in the others' rounds until a commit gives it more: blocks as long. With a fixed set of peers they
  /// follow from the step. Call it once per step.
  result<std::vector<std::uint64_t>> draw(std::uint64_t count) {
    if constexpr (valid && elastic) {
      for (;;) {
        auto numbers = ctx_.draw(count);
        if (!numbers.empty() || ctx_.budget_used()) return numbers;
        CAUSEWAY_TRY(attend());
      }
    } else {
      return ctx_.draw(count);
    }
  }

  /// One inner step over this peer's batch, and the exchanges that are due. On an error nothing was committed: the state is
  /// the one before the step, or, where the failure was in an exchange after it, that of a step whose exchange is pending;
  /// both can be saved, and the next call continues there.
  result<step_report> step(const batch& b) {
    if constexpr (valid) return judged_step(b);
    return report_;
  }

  /// Call once after the last step, on all peers: brings the replicas together.
  result<void> finish() {
    if constexpr (valid) {
      if (!ctx_.elastic()) return comm_.finish(ctx_);  // else the last commit did it
    }
    return {};
  }

  /// Mean loss in nats per token on the current parameters. Where the model is cut into stages, all of a pipeline's peers
  /// call it, with the same batch.
  result<double> evaluate(const batch& b) {
    if constexpr (valid) return parallel_.evaluate(ctx_, b);
    return 0.0;
  }

  [[nodiscard]] context_type& context() noexcept { return ctx_; }
  [[nodiscard]] M& model() noexcept { return ctx_.model(); }
  [[nodiscard]] Comm& comm() noexcept { return comm_; }
  [[nodiscard]] Parallel& parallel() noexcept { return parallel_; }
  [[nodiscard]] Fault& fault() noexcept { return fault_; }

  /// Has `f` called after every committed step, on the trainer's thread.
  void observe(step_observer f) { observers_.push_back(std::move(f)); }

  /// Calls `f(section name, version, object)` for everything that a checkpoint must keep besides the parameters.
  template <class F>
  void for_each_state(F&& f) {
    f("trainer", std::uint32_t{1}, *this);
    f(std::string{"inner."} + std::string{Inner::name}, std::uint32_t{1}, ctx_.inner());
    f(std::string{"comm."} + std::string{Comm::name}, std::uint32_t{Comm::state_version}, comm_);
    f(std::string{"parallel."} + std::string{Parallel::name}, std::uint32_t{Parallel::state_version}, parallel_);
    f(std::string{"fault."} + std::string{Fault::name}, std::uint32_t{Fault::state_version}, fault_);
  }

  /// The trainer's own counters. A step that failed in the gradient exchange is saved as not begun: its gradients are not
  /// part of a checkpoint.
  template <class Archive>
  void serialize(Archive& ar) {
    auto saved = static_cast<std::uint8_t>(phase_ >= phase::after ? phase_ : phase::compute);
    ar(saved, ctx_);
    phase_ = static_cast<phase>(saved);
  }

  /// Call after restoring state.
  void restored() {
    restored_ = true;
    ctx_.parameters_changed();
  }

 private:
  // A mix that was refused above gets empty bodies, so that the refusal is the only error.
  static constexpr bool valid = CommunicationPolicy<Comm> && ParallelismPolicy<Parallel> && FaultPolicy<Fault>;

  static constexpr bool elastic = Fault::traits.produces == peers::elastic && Comm::traits.tolerates == peers::elastic;

  enum class phase : std::uint8_t { compute, before, inner, after, close };

  // One round without training: what this peer has not contributed yet, or nothing.
  result<void> attend() {
    for (;;) {
      CAUSEWAY_TRY(fault_.begin_step(ctx_));
      const result<void> outcome = ctx_.attend([&] { return comm_.catch_up(ctx_); });
      CAUSEWAY_ASSIGN(const verdict judged, fault_.end_step(ctx_, outcome));
      if (judged == verdict::commit) return {};
      if (judged == verdict::abort) return outcome;
    }
  }

  // The fault policy judges after a failed phase and after the last one.
  result<step_report> judged_step(const batch& b) {
    const std::uint64_t round = ctx_.round();
    report_.compute_seconds = report_.exchange_seconds = 0;
    for (;;) {
      const result<void> outcome = advance(b);
      CAUSEWAY_ASSIGN(const verdict judged, fault_.end_step(ctx_, outcome));
      switch (judged) {
        case verdict::commit:
          phase_ = phase::compute;
          report_.by_others = !outcome;
          return committed(b, round);
        case verdict::retry: break;
        case verdict::abort:
          if (outcome) return fail(errc::cancelled, "fault policy", "it aborted a step that had succeeded");
          return outcome.error();
      }
    }
  }

  result<void> advance(const batch& b) {
    const auto begin = ctx_.clock().now();
    double exchanged = 0;
    auto outcome = advance(b, exchanged);
    report_.exchange_seconds += exchanged;
    report_.compute_seconds += seconds(ctx_.clock().now() - begin) - exchanged;
    return outcome;
  }

  result<void> advance(const batch& b, double& exchanged) {
    if (phase_ == phase::compute) {
      CAUSEWAY_TRY(fault_.begin_step(ctx_));
      ctx_.begin_compute();
      CAUSEWAY_ASSIGN(report_.loss, parallel_.forward_backward(ctx_, b));
      ctx_.count_samples(static_cast<std::uint64_t>(b.sequences));
      phase_ = phase::before;
    }
    if (phase_ == phase::before) {
      CAUSEWAY_TRY(timed(exchanged, [&] { return comm_.before_inner_step(ctx_); }));
      phase_ = phase::inner;
    }
    if (phase_ == phase::inner) {
      CAUSEWAY_TRY(ctx_.inner_step([&] { return parallel_.norm(ctx_); }));
      phase_ = phase::after;
    }
    if (phase_ == phase::after) {
      CAUSEWAY_TRY(timed(exchanged, [&] { return comm_.after_inner_step(ctx_); }));
      phase_ = phase::close;
    }
    CAUSEWAY_TRY(timed(exchanged, [&] { return parallel_.after_step(ctx_); }));
    phase_ = phase::compute;
    return {};
  }

  template <class F>
  result<void> timed(double& total, F&& hook) {
    const auto begin = ctx_.clock().now();
    auto outcome = hook();
    total += seconds(ctx_.clock().now() - begin);
    return outcome;
  }

  step_report committed(const batch& b, std::uint64_t round_before) {
    ctx_.commit_step();
    report_.step = ctx_.step();
    report_.round = ctx_.round();
    report_.tokens = b.tokens();
    report_.learning_rate = ctx_.learning_rate();
    report_.gradient_norm = ctx_.gradient_norm();
    report_.committed_round = ctx_.round() != round_before;
    report_.state_hash = report_.committed_round ? ctx_.state_hash() : 0;
    for (const auto& observer : observers_) observer(report_);
    return report_;
  }

  context_type ctx_;
  Comm comm_;
  Parallel parallel_;
  Fault fault_;
  phase phase_ = phase::compute;
  bool restored_ = false;
  step_report report_;
  std::vector<step_observer> observers_;
};

/// A trainer of `M` with any of an inner optimizer, a communication, a parallelism and a fault policy, in any order; the
/// rest are AdamW, periodic averaging, data parallelism and fail-stop.
template <class M, class... Policies>
using trainer = basic_trainer<detail::claimed<M, Policies...>, detail::pick<detail::kind::inner, optim::adamw, Policies...>,
                              detail::pick<detail::kind::comm, comm::periodic<>, Policies...>,
                              detail::pick<detail::kind::parallel, parallel::data_parallel, Policies...>,
                              detail::pick<detail::kind::fault, fault::fail_stop, Policies...>>;

/// The function form, for policies with options: `make_trainer(model, env, options, comm::periodic<>{{.local_steps =
/// 50}})`.
template <class M, class... Policies>
[[nodiscard]] auto make_trainer(M model, environment env, trainer_options options, Policies... policies) {
  static_assert(
      !detail::given_model<M>::is_result,
      "causeway-P7: the model is still a result: take the model out of it with CAUSEWAY_ASSIGN, or with `*` after "
      "looking whether it failed. docs/reference/rules.md#p7");
  using type = trainer<typename detail::given_model<M>::type, Policies...>;
  detail::bag<Policies...> bag{std::move(policies)...};
  return type{detail::given_model<M>::take(model),
              std::move(env),
              std::move(options),
              bag.template take<detail::kind::inner, optim::adamw>(),
              bag.template take<detail::kind::comm, comm::periodic<>>(),
              bag.template take<detail::kind::parallel, parallel::data_parallel>(),
              bag.template take<detail::kind::fault, fault::fail_stop>()};
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_TRAINER_HPP

// ---- causeway/elastic.hpp ----
#ifndef CAUSEWAY_ELASTIC_HPP
#define CAUSEWAY_ELASTIC_HPP

// For peers that come and go during a run: membership, transfers of state, fault::quorum.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#endif  // CAUSEWAY_ELASTIC_HPP
