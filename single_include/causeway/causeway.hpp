// SPDX-License-Identifier: Apache-2.0
// Causeway 0.1.0, all headers in one. Written by tools/amalgamate.py: change the headers, not this file.

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

// ---- causeway/core/clock.hpp ----
#ifndef CAUSEWAY_CORE_CLOCK_HPP
#define CAUSEWAY_CORE_CLOCK_HPP

// Time as a dependency. Nothing in the library reads a clock but through these types, so that a simulated cluster can run
// on virtual time.

#include <chrono>
#include <concepts>
#include <memory>

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
  errc code = errc::invalid_argument;
  std::string where;
  std::string message;

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
  constexpr explicit hasher(std::uint64_t seed = 0) noexcept
      : lanes_{seed ^ 0x243F6A8885A308D3U, seed ^ 0x13198A2E03707344U, seed ^ 0xA4093822299F31D0U,
               seed ^ 0x082EFA98EC4E6C89U, seed ^ 0x452821E638D01377U, seed ^ 0xBE5466CF34E90C6CU,
               seed ^ 0xC0AC29B7C97C50DDU, seed ^ 0x3F84D5B5B5470917U} {}

  hasher& add(std::span<const std::byte> bytes) noexcept {
    if (length_ % 64 != 0) lanes_[0] = detail::scramble(lanes_[0] ^ length_);  // closes a piece that ended inside a stripe
    std::size_t at = 0;
    for (; at + 64 <= bytes.size(); at += 64) stripe(bytes.data() + at);
    if (at < bytes.size()) {
      std::array<std::byte, 64> tail{};
      std::memcpy(tail.data(), bytes.data() + at, bytes.size() - at);
      stripe(tail.data());
    }
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
    std::uint64_t h = length_ * detail::hash_prime;
    for (const std::uint64_t lane : lanes_) h = detail::scramble(h ^ lane) + detail::hash_prime;
    return detail::scramble(h);
  }

 private:
  // Eight independent multiply-rotate lanes, so that the compiler can keep them in vector registers.
  void stripe(const std::byte* p) noexcept {
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint64_t x = (lanes_[i] ^ detail::load64(p + 8 * i)) * detail::hash_prime;
      lanes_[i] = x ^ (x >> 29U);
    }
  }

  std::array<std::uint64_t, 8> lanes_;
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

// ---- causeway/core/metrics.hpp ----
#ifndef CAUSEWAY_CORE_METRICS_HPP
#define CAUSEWAY_CORE_METRICS_HPP

// What a run says about itself. The library never prints: it hands records to a sink, which is silent by default.

#include <functional>

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

// ---- causeway/core/result.hpp ----
#ifndef CAUSEWAY_CORE_RESULT_HPP
#define CAUSEWAY_CORE_RESULT_HPP

// A value or an error. Our own type rather than std::expected, also where that exists, so that the ABI does not depend on
// the language mode. Nothing in the library throws for a reason that the network, a disk or a peer can cause.

#include <optional>
#include <type_traits>
#include <variant>

namespace causeway::inline CAUSEWAY_ABI {

/// A `T`, or the `error` that prevented it. Reading the wrong side is a precondition violation.
template <class T>
class [[nodiscard]] result {
 public:
  using value_type = T;

  result(T value) : state_{std::in_place_index<0>, std::move(value)} {}                    // NOLINT: converting on purpose
  result(causeway::error failure) : state_{std::in_place_index<1>, std::move(failure)} {}  // NOLINT

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & { return check(), *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const& { return check(), *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && { return check(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] causeway::error& error() & { return check_failed(), *std::get_if<1>(&state_); }
  [[nodiscard]] const causeway::error& error() const& { return check_failed(), *std::get_if<1>(&state_); }
  [[nodiscard]] causeway::error&& error() && { return check_failed(), std::move(*std::get_if<1>(&state_)); }

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

  std::variant<T, causeway::error> state_;
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

// ---- causeway/core/thread_pool.hpp ----
#ifndef CAUSEWAY_CORE_THREAD_POOL_HPP
#define CAUSEWAY_CORE_THREAD_POOL_HPP

// The one thread pool of a process. Work is cut statically by thread index, so a computation's order depends on the number
// of threads and on nothing else. Idle threads spin for about 100 microseconds before they sleep: a sleeping thread takes
// 45 microseconds to wake, which is longer than many kernels.

#include <atomic>
#include <thread>
#include <vector>

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

#include <algorithm>
#include <bit>

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
  return file;
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
// `keep` generations stay, so that a file which the disk lost still leaves the one before. One process per folder.

#include <set>

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
    const std::string name = checkpoint_name(step);
    CAUSEWAY_TRY(storage_.write_atomic(path_of(name), [&](const byte_sink& sink) {
      return write_sections(sink, {run_id, step}, sections);
    }));
    bad_.erase(name);
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
      if (s > step) CAUSEWAY_TRY(storage_.remove(path_of(checkpoint_name(s))));
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

  void prune(std::uint64_t saved);

  S storage_;
  std::string directory_;
  unsigned keep_;
  std::set<std::string> bad_;  // files that `load_newest` found torn: they do not count as generations
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
      if (!passed_over.empty()) passed_over = "went back to " + path_of(name) + ", because " + passed_over;
      return loaded_checkpoint{std::move(file).value(), std::move(passed_over)};
    }
    // A file from a newer library is whole: silently going back behind it would lose work.
    if (file.error().code == errc::version_mismatch) return std::move(file).error();
    bad_.insert(name);
    passed_over += (passed_over.empty() ? "" : "; ") + file.error().text();
  }
  return fail(errc::corrupt, directory_,
              "no checkpoint here is whole. Start anew, or fetch the state from another peer: " + passed_over);
}

template <Storage S>
void checkpoint_directory<S>::prune(std::uint64_t saved) {
  const auto names = storage_.list(directory_);
  if (!names) return;
  std::vector<std::uint64_t> good;
  for (const std::string& name : *names) {
    const auto step = checkpoint_step(name);
    const bool unfinished = name.starts_with("step-") && name.ends_with(".tmp");  // left by a process that died
    if (unfinished || bad_.contains(name)) {
      if (storage_.remove(path_of(name))) bad_.erase(name);
    } else if (step && *step != saved) {
      good.push_back(*step);
    }
  }
  std::sort(good.begin(), good.end());
  for (std::size_t i = 0; i + (keep_ - 1) < good.size(); ++i) (void)storage_.remove(path_of(checkpoint_name(good[i])));
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_CHECKPOINT_HPP

// ---- causeway/io/file.hpp ----
#ifndef CAUSEWAY_IO_FILE_HPP
#define CAUSEWAY_IO_FILE_HPP

// Files of a POSIX system. A write goes to a temporary file beside its target, is synced, renamed over the target, and the
// folder is synced: after a crash at any point the target is whole, old or new. A failed fsync is never repeated on the
// same file, because the kernel may have dropped the pages and would then report success (Rebello et al. 2020).

#include <cerrno>
#include <cstdio>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace causeway::inline CAUSEWAY_ABI::io {

namespace detail {

class descriptor;
result<descriptor> open_file(const std::string& path, int flags);
result<std::size_t> file_size(const descriptor& file, const std::string& path);
error os_error(const std::string& path, const std::string& doing, int code);
result<void> write_all(const descriptor& file, std::span<const std::byte> bytes, const std::string& path);
result<void> sync(const descriptor& file, const std::string& path);
result<void> sync_folder(const std::string& folder);
result<void> make_folders(const std::string& folder);
result<void> write_and_close(const std::string& path, const byte_producer& producer);
std::string folder_of(const std::string& path);

}  // namespace detail

/// A read-only view of a file through the page cache; nothing is read before it is touched. The file must not be
/// shortened while it is mapped, and a disk that fails under it ends the program (SIGBUS): use `posix_storage::read` where
/// an error must be handled. Threads may read it together.
class mapped_file {
 public:
  mapped_file() = default;

  static result<mapped_file> open(const std::string& path);

  mapped_file(mapped_file&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~mapped_file() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The disk. Stateless; see Storage for what the members promise. Two processes may write the same path: one of the two
/// contents wins, whole.
class posix_storage {
 public:
  /// Errors: errc::disk_full (no space, quota or file size limit), errc::io_failed, or the producer's own.
  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
    const std::string folder = detail::folder_of(path);
    CAUSEWAY_TRY(detail::make_folders(folder));
    const std::string temporary = path + '.' + std::to_string(::getpid()) + ".tmp";
    if (auto written = detail::write_and_close(temporary, producer); !written) {
      ::unlink(temporary.c_str());
      return written;
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      const int code = errno;
      ::unlink(temporary.c_str());
      return detail::os_error(path, "rename the finished file to its final name", code);
    }
    return detail::sync_folder(folder);
  }

  result<byte_vector> read(const std::string& path);
  result<std::vector<std::string>> list(const std::string& folder);

  result<void> remove(const std::string& path) {
    if (::unlink(path.c_str()) == 0) return detail::sync_folder(detail::folder_of(path));
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return detail::os_error(path, "remove it", errno);
  }
};

static_assert(Storage<posix_storage>);

namespace detail {

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  descriptor(descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() { (void)close(); }

  [[nodiscard]] int get() const noexcept { return fd_; }

  /// False if the system reports a late write error (network file systems do it here).
  bool close() noexcept { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

inline error os_error(const std::string& path, const std::string& doing, int code) {
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

inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

inline result<descriptor> open_file(const std::string& path, int flags) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (fd >= 0) return descriptor{fd};
    if (errno != EINTR) return os_error(path, "open it", errno);
  }
}

inline result<std::size_t> file_size(const descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return os_error(path, "ask for its size", errno);
  if (!S_ISREG(info.st_mode)) return fail(errc::io_failed, path, "this is not a regular file. Give the path of a file");
  return static_cast<std::size_t>(info.st_size);
}

inline result<void> write_all(const descriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t most = std::size_t{1} << 30U;  // one call writes less than 2 GiB on Linux anyway
  while (!bytes.empty()) {
    const ::ssize_t n = ::write(file.get(), bytes.data(), std::min(bytes.size(), most));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "write to it", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

inline result<void> sync(const descriptor& file, const std::string& path) {
  if (::fsync(file.get()) == 0) return {};
  return os_error(path, "make it durable (fsync)", errno);
}

/// Makes a rename or removal in `folder` durable. File systems that cannot sync folders are taken at their word.
inline result<void> sync_folder(const std::string& folder) {
  CAUSEWAY_ASSIGN(const descriptor file, open_file(folder, O_RDONLY | O_DIRECTORY));
  if (::fsync(file.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return {};
  return os_error(folder, "make the folder durable (fsync)", errno);
}

inline result<void> make_folders(const std::string& folder) {
  struct stat info {};
  if (folder.empty() || ::stat(folder.c_str(), &info) == 0) return {};
  const std::string parent = folder_of(folder);
  CAUSEWAY_TRY(make_folders(parent));
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST) return {};  // another process was quicker
    return os_error(folder, "make the folder", errno);
  }
  return sync_folder(parent);
}

inline result<void> write_and_close(const std::string& path, const byte_producer& producer) {
  CAUSEWAY_ASSIGN(descriptor file, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  CAUSEWAY_TRY(producer([&](std::span<const std::byte> piece) { return write_all(file, piece, path); }));
  CAUSEWAY_TRY(sync(file, path));
  if (!file.close()) return os_error(path, "close it", errno);
  return {};
}

}  // namespace detail

inline result<mapped_file> mapped_file::open(const std::string& path) {
  CAUSEWAY_ASSIGN(const detail::descriptor file, detail::open_file(path, O_RDONLY));
  CAUSEWAY_ASSIGN(const std::size_t size, detail::file_size(file, path));
  mapped_file mapped;
  if (size == 0) return mapped;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return detail::os_error(path, "map it into memory", errno);
  mapped.data_ = data;
  mapped.size_ = size;
  return mapped;
}

inline result<byte_vector> posix_storage::read(const std::string& path) {
  CAUSEWAY_ASSIGN(const detail::descriptor file, detail::open_file(path, O_RDONLY));
  CAUSEWAY_ASSIGN(const std::size_t size, detail::file_size(file, path));
  byte_vector content(size);
  std::size_t at = 0;
  while (at < size) {
    const ::ssize_t n = ::read(file.get(), content.data() + at, std::min(size - at, std::size_t{1} << 30U));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return detail::os_error(path, "read it", errno);
    if (n == 0) break;  // became shorter while we read; its own checks will tell
    at += static_cast<std::size_t>(n);
  }
  content.resize(at);
  return content;
}

inline result<std::vector<std::string>> posix_storage::list(const std::string& folder) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return detail::os_error(folder, "list the folder", errno);
  std::vector<std::string> names;
  struct stat info {};
  for (const dirent* entry = ::readdir(stream); entry != nullptr; entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    if (::stat((folder + '/' + name).c_str(), &info) == 0 && S_ISREG(info.st_mode)) names.push_back(std::move(name));
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_FILE_HPP

// ---- causeway/io/memory_storage.hpp ----
#ifndef CAUSEWAY_IO_MEMORY_STORAGE_HPP
#define CAUSEWAY_IO_MEMORY_STORAGE_HPP

// A disk in memory that can be told to fail. Its faults are those of real disks: a write that is refused, a write that was
// reported done but kept only a prefix (power loss on a disk that ignores fsync), a full disk, a flipped bit.

#include <map>
#include <mutex>

namespace causeway::inline CAUSEWAY_ABI::io {

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
  explicit memory_storage(storage_faults faults = {}) : disk_{std::make_shared<disk>()} { disk_->faults = faults; }

  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
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

  result<byte_vector> read(const std::string& path) {
    const std::lock_guard lock{disk_->mutex};
    const auto found = disk_->files.find(path);
    if (found == disk_->files.end()) return fail(errc::not_found, path, "there is no such file. Check the path");
    return found->second;
  }

  result<std::vector<std::string>> list(const std::string& folder) {
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

  result<void> remove(const std::string& path) {
    const std::lock_guard lock{disk_->mutex};
    if (disk_->faults.fail_removes) return fail(errc::io_failed, path, "injected fault: the disk refused to remove it");
    disk_->files.erase(path);
    return {};
  }

  /// Replaces the faults; counting of writes goes on.
  void set_faults(storage_faults faults) {
    const std::lock_guard lock{disk_->mutex};
    disk_->faults = faults;
  }

  /// Number of writes asked for so far.
  [[nodiscard]] std::uint64_t writes() const {
    const std::lock_guard lock{disk_->mutex};
    return disk_->writes;
  }

 private:
  struct disk {
    std::mutex mutex;
    std::map<std::string, byte_vector> files;
    storage_faults faults;
    std::uint64_t writes = 0;

    /// Counts a write and does to `content` what the faults say.
    result<void> spoil(const std::string& path, byte_vector& content) {
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

    [[nodiscard]] std::size_t used_beside(const std::string& path) const {
      std::size_t sum = 0;
      for (const auto& [name, content] : files) sum += name == path ? 0 : content.size();
      return sum;
    }
  };

  std::shared_ptr<disk> disk_;
};

static_assert(Storage<memory_storage>);

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_MEMORY_STORAGE_HPP

// ---- causeway/net/codec.hpp ----
#ifndef CAUSEWAY_NET_CODEC_HPP
#define CAUSEWAY_NET_CODEC_HPP

// Reading and writing bytes that cross the trust boundary: fixed-width little-endian integers, and text and blobs behind a
// length. The reader never looks past its input, never believes a length that the input does not back with bytes, and
// remembers its first failure: a decoder reads everything and asks once at the end.

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

  [[nodiscard]] bool ok() const noexcept { return state_ == state::good; }
  [[nodiscard]] std::size_t remaining() const noexcept { return rest_.size(); }

  /// Success when every read succeeded and nothing is left; else errc::corrupt with the reason.
  [[nodiscard]] result<void> finish(std::string_view what) const {
    if (state_ == state::over_limit) {
      return fail(errc::too_large, std::string{what}, "a length in it is beyond its limit");
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

// ---- causeway/net/endpoint.hpp ----
#ifndef CAUSEWAY_NET_ENDPOINT_HPP
#define CAUSEWAY_NET_ENDPOINT_HPP

// A machine and a port, as people write them: "127.0.0.1:5100", "trainer.example.org:5100", "[::1]:5100".

#include <charconv>

namespace causeway::inline CAUSEWAY_ABI::net {

/// Where somebody listens. Port 0 asks the system for any free port.
struct endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  /// "host:port"; the host in brackets when it is an IPv6 address.
  [[nodiscard]] std::string text() const {
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// Reads "host:port" or "[v6]:port". errc::invalid_argument says what is wrong with the text.
inline result<endpoint> parse_endpoint(std::string_view text) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ENDPOINT_HPP

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
  static traffic stats() noexcept { return {}; }
};
static_assert(Transport<solo_transport>);

/// Any transport, held by value; one virtual call per message.
class any_transport {
 public:
  any_transport() : any_transport(solo_transport{}) {}

  template <class T>
    requires(!std::same_as<T, any_transport>)
  &&Transport<T>  // in this order: the concept asks for moves of T
      explicit any_transport(T transport) : model_{std::make_unique<model<T>>(std::move(transport))} {}

  [[nodiscard]] peer_index self() const { return model_->self(); }
  [[nodiscard]] std::uint32_t size() const { return model_->size(); }
  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return model_->send(to, id, bytes);
  }
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return model_->receive(from, id, buffer);
  }
  result<std::size_t> wait(operation op, time_point deadline) { return model_->wait(op, deadline); }
  [[nodiscard]] traffic stats() const { return model_->stats(); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual peer_index self() const = 0;
    virtual std::uint32_t size() const = 0;
    virtual operation send(peer_index, const message_id&, std::span<const std::byte>) = 0;
    virtual operation receive(peer_index, const message_id&, std::span<std::byte>) = 0;
    virtual result<std::size_t> wait(operation, time_point) = 0;
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
    traffic stats() const override { return transport.stats(); }
    T transport;
  };

  std::unique_ptr<interface> model_;
};
static_assert(Transport<any_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_TRANSPORT_HPP

// ---- causeway/net/frame.hpp ----
#ifndef CAUSEWAY_NET_FRAME_HPP
#define CAUSEWAY_NET_FRAME_HPP

// The wire format: everything on a connection is a frame, and a frame is a header of 80 bytes and at most 4 MiB behind it.
// Encoding and decoding are pure functions. A header that decodes has the right magic and version, a valid checksum, a
// known kind, and lengths that are within their limits and consistent with each other. docs/reference/wire_format.md has
// the table.

namespace causeway::inline CAUSEWAY_ABI::net {

inline constexpr std::uint32_t frame_magic = 0x59575343U;  ///< "CSWY"
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t header_bytes = 80;
inline constexpr std::size_t max_chunk_bytes = std::size_t{4} << 20U;
inline constexpr std::size_t min_chunk_bytes = std::size_t{4} << 10U;
inline constexpr std::size_t max_control_bytes = std::size_t{64} << 10U;
inline constexpr std::uint64_t max_message_bytes = std::uint64_t{1} << 36U;

enum class frame_kind : std::uint8_t {
  data = 1,       ///< one chunk of a message
  abort = 2,      ///< the sender gave a message up; `chunk_offset` says how many of its bytes were sent
  heartbeat = 3,  ///< "I am here"; no content
  goodbye = 4,    ///< nothing follows on this stream
  hello = 5,      ///< joiner to host: who I am and what I want
  accepted = 6,   ///< host to joiner: your index; repeated with the number of peers while it waits for the others
  table = 7,      ///< host to joiners: everybody's address
  link = 8,       ///< first frame of a stream between two peers
  link_ok = 9,    ///< answer to `link`
  ready = 10,     ///< joiner to host: all my streams are up
  go = 11,        ///< host to joiners: everybody is ready
  refused = 12,   ///< an errc and a sentence; the connection ends
  welcome = 13,   ///< host to joiners: bytes of the program, before the table
};

/// The header of every frame. `sequence` counts the messages of a link; chunks of one message share it and may come over
/// several streams in any order.
struct frame_header {
  frame_kind kind = frame_kind::data;
  std::uint8_t flags = 0;  ///< must be 0 in this version
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

inline std::uint64_t header_checksum(const std::byte* header) noexcept {
  return hash_bytes({header, checksum_offset}, frame_magic);
}

}  // namespace detail

/// Writes `h` as 80 bytes at `to`.
inline void encode_header(const frame_header& h, std::byte* to) noexcept {
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

inline header_block encode_header(const frame_header& h) noexcept {
  header_block block;
  encode_header(h, block.data());
  return block;
}

namespace detail {

inline frame_header read_header_fields(byte_reader& in) noexcept {
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

constexpr bool is_control(frame_kind kind) noexcept { return kind >= frame_kind::hello; }

/// The rules between the fields of a header whose checksum holds. Null when all are kept.
inline const char* broken_rule(const frame_header& h) noexcept {
  if (h.kind < frame_kind::data || h.kind > frame_kind::welcome) return "an unknown kind of frame";
  if (h.flags != 0) return "flags that this version does not know";
  if (h.message_length > max_message_bytes) return "a message of more than 64 GiB";
  if (h.chunk_offset > h.message_length) return "a chunk that starts behind the end of its message";
  if (is_control(h.kind)) return h.chunk_length > max_control_bytes ? "a control frame above 64 KiB" : nullptr;
  if (h.kind != frame_kind::data) return h.chunk_length != 0 ? "content where none belongs" : nullptr;
  if (h.chunk_length > max_chunk_bytes) return "a chunk above 4 MiB";
  if (h.chunk_length > h.message_length - h.chunk_offset) return "a chunk that reaches past the end of its message";
  if (h.chunk_length == 0 && h.message_length != 0) return "an empty chunk";
  return nullptr;
}

}  // namespace detail

/// Reads a header from the first 80 of the given bytes. errc::protocol for bytes that are no frame of ours,
/// errc::version_mismatch for another version, errc::corrupt for a wrong checksum, errc::too_large or errc::protocol for
/// a broken rule. Reads nothing beyond the header.
inline result<frame_header> decode_header(std::span<const std::byte> bytes) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FRAME_HPP

// ---- causeway/net/operations.hpp ----
#ifndef CAUSEWAY_NET_OPERATIONS_HPP
#define CAUSEWAY_NET_OPERATIONS_HPP

// The sends and receives that were started and not yet waited for. A handle carries its slot and the slot's generation, so
// that an old handle never names a newer operation. Not thread-safe: its owner locks.

namespace causeway::inline CAUSEWAY_ABI::net::detail {

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
  std::optional<error> failure = {};
};

class operation_table {
 public:
  slot_index start(const pending_operation& what) {
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

  pending_operation& operator[](slot_index slot) { return slots_[slot]; }

  [[nodiscard]] operation handle(slot_index slot) const {
    return operation{slots_[slot].generation} << 32U | (operation{slot} + 1);
  }

  /// The slot that a handle names, or `no_slot`.
  [[nodiscard]] slot_index find(operation handle) const {
    const auto slot = static_cast<slot_index>((handle & UINT32_MAX) - 1);
    const bool known = slot < slots_.size() && slots_[slot].used && slots_[slot].generation == handle >> 32U;
    return known ? slot : no_slot;
  }

  void finish(slot_index slot) { slots_[slot].done = true; }

  void finish(slot_index slot, error failure) {
    slots_[slot].failure = std::move(failure);
    slots_[slot].done = true;
  }

  /// The outcome of a finished operation; its slot becomes free.
  result<std::size_t> release(slot_index slot) {
    pending_operation& op = slots_[slot];
    op.used = false;
    free_.push_back(slot);
    if (op.failure) return std::move(*op.failure);
    return op.moved;
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
inline std::string to_text(const message_id& id) {
  return "channel " + std::to_string(id.channel) + ", epoch " + std::to_string(id.epoch) + ", step " +
         std::to_string(id.step);
}

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_OPERATIONS_HPP

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

namespace causeway::inline CAUSEWAY_ABI::net::detail {

/// Where the bytes of the chunk that a stream is reading go.
struct landing {
  enum class kind : std::uint8_t { user_buffer, kept, discard, parked };
  kind how = kind::parked;    ///< parked: no room, read nothing more from this stream
  std::byte* to = nullptr;    ///< null when discarded
  slot_index slot = no_slot;  ///< the receive that owns the user buffer
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

struct inbox_limits {
  std::size_t chunk = std::size_t{1} << 20U;        ///< the sender's chunk length
  std::size_t pause_at = std::size_t{64} << 20U;    ///< kept bytes at which reading stops while no receive is open
  std::size_t refuse_at = std::size_t{256} << 20U;  ///< kept bytes at which the peer is dropped
};

class inbox {
 public:
  inbox(operation_table& operations, peer_index peer, const inbox_limits& limits)
      : operations_{&operations}, peer_{peer}, limits_{limits} {}

  /// A chunk's header came in. An error means that the peer broke the protocol and must be dropped.
  result<landing> begin_chunk(const frame_header& h) {
    CAUSEWAY_ASSIGN(message* const m, announce(h));
    CAUSEWAY_TRY(check_chunk(*m, h));
    landing spot{landing::kind::discard, nullptr, no_slot, h.sequence, h.chunk_offset, h.chunk_length};
    if (m->slot != no_slot) {
      spot.how = landing::kind::user_buffer;
      spot.to = (*operations_)[m->slot].target + h.chunk_offset;
      spot.slot = m->slot;
    } else if (!m->discard) {
      CAUSEWAY_TRY(keep_chunk(*m, h, spot));
    }
    if (spot.how != landing::kind::parked) m->mark_seen(h.chunk_offset / limits_.chunk);
    return spot;
  }

  /// All bytes of a chunk are where `begin_chunk` said.
  void end_chunk(const landing& spot) {
    const auto found = messages_.find(spot.sequence);
    CAUSEWAY_EXPECT(found != messages_.end());
    message& m = found->second;
    m.received += spot.length;
    if (spot.how == landing::kind::kept) settle_kept(m, spot.offset);
    if (m.slot != no_slot) (*operations_)[m.slot].moved = m.received;
    retire_if_complete(found);
  }

  /// The sender gave a message up after `chunk_offset` bytes of it.
  result<void> abort_message(const frame_header& h) {
    CAUSEWAY_ASSIGN(message* const m, announce(h, true));
    if (h.chunk_offset < m->received) return broken("it takes back bytes that it already sent");
    if (m->slot != no_slot) {
      operations_->finish(m->slot, fail(errc::cancelled, peer_name(peer_), "it gave up sending this message"));
    }
    discard(*m);
    m->expected = h.chunk_offset;
    retire_if_complete(messages_.find(h.sequence));
    return {};
  }

  /// A receive was started. Ends it at once when its message is here already.
  void post(slot_index slot) {
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

  /// A receive is given up: nothing may touch its buffer from now on. The streams must drop landings of its slot as well.
  void cancel(slot_index slot) {
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

  /// The connection is over: ends every receive that still misses bytes. Complete messages stay and can be received.
  void fail_all(const error& why) {
    for (const slot_index slot : open_) operations_->finish(slot, why);
    open_.clear();
    for (auto at = messages_.begin(); at != messages_.end();) {
      if (at->second.slot != no_slot) operations_->finish(at->second.slot, why);
      const bool whole = at->second.complete() && !at->second.discard && at->first < frontier_;
      at = whole ? std::next(at) : erase(at);
    }
  }

  /// Drops kept messages of epochs before `epoch`: nobody will ask for them again.
  void discard_before(std::uint32_t epoch) {
    for (auto at = messages_.begin(); at != messages_.end();) {
      const auto here = at++;
      if (here->second.id.epoch >= epoch || here->second.slot != no_slot || here->first >= frontier_) continue;
      discard(here->second);
      retire_if_complete(here);
    }
  }

  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_; }
  [[nodiscard]] bool wants_anything() const noexcept { return !open_.empty(); }

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
    std::uint64_t expected = 0;  ///< the length, or less once the sender gave it up
    slot_index slot = no_slot;   ///< the receive it goes to
    bool discard = false;
    std::vector<bool> seen;  ///< chunks that came; empty for a message of one chunk
    bool seen_only = false;
    std::vector<kept_chunk> kept;

    [[nodiscard]] bool complete() const { return received == expected && (length != 0 || seen_only || discard); }
    [[nodiscard]] bool was_seen(std::uint64_t chunk) const { return seen.empty() ? seen_only : seen[chunk]; }
    void mark_seen(std::uint64_t chunk) {
      if (seen.empty()) seen_only = true;
      if (!seen.empty()) seen[chunk] = true;
    }
  };
  using message_map = std::map<std::uint64_t, message>;

  static std::size_t cost_of(const message& m) { return message_cost + m.seen.size() / 8; }

  static bool same_conversation(const message_id& a, const message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  [[nodiscard]] error broken(const char* what) const {
    return fail(errc::protocol, peer_name(peer_), std::string{what} + "; the connection was dropped");
  }

  /// The message that a header belongs to; a new one is entered and, when its turn has come, matched.
  result<message*> announce(const frame_header& h, bool aborted = false) {
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
    kept_ += cost_of(m);
    match_in_order(h.sequence);
    return &m;
  }

  /// Matches every message whose predecessors have all been seen. One that overtook others may be complete already; the
  /// one just announced is still needed by the caller.
  void match_in_order(std::uint64_t just_announced) {
    for (auto at = messages_.find(frontier_); at != messages_.end() && at->first == frontier_; ++frontier_) {
      const auto here = at++;
      match(here->second);
      if (here->first != just_announced) retire_if_complete(here, frontier_ + 1);
    }
  }

  void match(message& m) {
    if (m.discard) return;
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

  void deliver_to(message& m, slot_index slot) {
    pending_operation& op = (*operations_)[slot];
    if (op.id.parent != m.id.parent) {
      operations_->finish(slot, fail(errc::wrong_parent, peer_name(peer_),
                                     "its message (" + to_text(m.id) +
                                         ") is based on another committed state than ours; it was refused unread"));
      return discard(m);
    }
    if (m.length > op.length) {
      operations_->finish(slot, fail(errc::too_large, peer_name(peer_),
                                     "its message (" + to_text(m.id) + ") has " + std::to_string(m.length) +
                                         " bytes, we expected at most " + std::to_string(op.length)));
      return discard(m);
    }
    m.slot = slot;
    op.moved = m.received;
    for (const kept_chunk& chunk : m.kept) copy_if_filled(m, chunk);
    drop_filled(m);
  }

  result<void> check_chunk(const message& m, const frame_header& h) const {
    if (h.chunk_offset % limits_.chunk != 0) return broken("it sent a chunk at a place where none starts");
    const std::uint64_t whole = std::min<std::uint64_t>(limits_.chunk, h.message_length - h.chunk_offset);
    if (h.chunk_length != whole) return broken("it sent a chunk of the wrong length");
    if (m.was_seen(h.chunk_offset / limits_.chunk)) return broken("it sent a chunk twice");
    if (m.received + h.chunk_length > m.expected) return broken("it went on with a message that it had given up");
    return {};
  }

  result<void> keep_chunk(message& m, const frame_header& h, landing& spot) {
    const std::size_t after = kept_ + h.chunk_length;
    if (after > limits_.pause_at && open_.empty()) {
      spot.how = landing::kind::parked;
      return {};
    }
    // A receive is open and its message may be behind this one: read on beyond the limit rather than wait for ever.
    if (after > limits_.refuse_at) return broken("it sent far more than anybody asked for");
    m.kept.push_back({h.chunk_offset, h.chunk_length, false, std::unique_ptr<std::byte[]>{new std::byte[h.chunk_length]}});
    kept_ = after;
    spot.how = landing::kind::kept;
    spot.to = m.kept.back().bytes.get();
    return {};
  }

  void settle_kept(message& m, std::uint64_t offset) {
    for (kept_chunk& chunk : m.kept) {
      if (chunk.offset != offset) continue;
      chunk.filled = true;
      copy_if_filled(m, chunk);
    }
    if (m.slot != no_slot || m.discard) drop_filled(m);
  }

  void copy_if_filled(const message& m, const kept_chunk& chunk) {
    if (m.slot == no_slot || !chunk.filled || chunk.length == 0) return;
    std::memcpy((*operations_)[m.slot].target + chunk.offset, chunk.bytes.get(), chunk.length);
  }

  /// Frees kept chunks but for those that a stream still writes into.
  void drop_filled(message& m) {
    std::erase_if(m.kept, [&](const kept_chunk& chunk) {
      if (chunk.filled) kept_ -= chunk.length;
      return chunk.filled;
    });
  }

  void discard(message& m) {
    m.discard = true;
    m.slot = no_slot;
    drop_filled(m);
  }

  void retire_if_complete(message_map::iterator at) { retire_if_complete(at, frontier_); }

  void retire_if_complete(message_map::iterator at, std::uint64_t frontier) {
    message& m = at->second;
    if (!m.complete() || at->first >= frontier) return;
    if (m.slot == no_slot && !m.discard) return;
    if (m.slot != no_slot) operations_->finish(m.slot);
    erase(at);
  }

  message_map::iterator erase(message_map::iterator at) {
    for (const kept_chunk& chunk : at->second.kept) kept_ -= chunk.length;
    kept_ -= cost_of(at->second);
    return messages_.erase(at);
  }

  operation_table* operations_;
  peer_index peer_;
  inbox_limits limits_;
  std::uint64_t frontier_ = 0;  // every message before it was seen and matched or kept
  message_map messages_;
  std::deque<slot_index> open_;      // receives without a message yet, oldest first
  std::deque<message_id> given_up_;  // receives that were cancelled before their message came
  std::size_t kept_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_INBOX_HPP

// ---- causeway/net/memory_transport.hpp ----
#ifndef CAUSEWAY_NET_MEMORY_TRANSPORT_HPP
#define CAUSEWAY_NET_MEMORY_TRANSPORT_HPP

// A network inside one process: every peer is a thread, a message is a copy. It keeps the contract of net/transport.hpp to
// the letter (order, kept messages, refused parents, deadlines, lost peers), counts bytes as if they were framed, and can
// be told to fail at the n-th operation of a peer. Made for tests, examples and measurements of everything above sockets.

#include <condition_variable>

namespace causeway::inline CAUSEWAY_ABI::net {

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
  memory_hub(std::uint32_t peers, memory_options options) : options_{std::move(options)}, seats_(peers) {}

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(seats_.size()); }

  operation start(peer_index self, peer_index other, const message_id& id, std::span<const std::byte> out,
                  std::span<std::byte> in, bool is_send) {
    const std::lock_guard lock{mutex_};
    seat& me = seats_[self];
    if (peer_index{self} == other || other >= size()) return refuse(me, other, "no such peer, or the peer itself");
    const fault* planned = planned_fault(me);
    ++me.operations;
    if (planned != nullptr && planned->what == effect::kill) lose(self);
    pending op{++me.last, other, id, out, in, is_send};
    if (!me.alive) {
      op.end(fail(errc::peer_lost, name(self), "this peer was stopped; restart it to go on"));
    } else if (planned != nullptr) {
      if (planned->what == effect::fail) op.end(fail(planned->code, name(other), "failed on request of the test"));
      op.stalled = planned->what == effect::stall;
    }
    me.started.push_back(std::move(op));
    if (is_send) begin_send(self, me.started.back());
    if (!is_send) begin_receive(self, me.started.back());
    return me.last;
  }

  result<std::size_t> wait(peer_index self, operation wanted, time_point deadline) {
    std::unique_lock lock{mutex_};
    seat& me = seats_[self];
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
      // The clock may be a virtual one that nobody tells us about: look at it again after a moment.
      me.changed.wait_for(lock, std::min<duration>(deadline - now, std::chrono::milliseconds{2}));
    }
  }

  void lost(peer_index peer) {
    const std::lock_guard lock{mutex_};
    lose(peer);
  }

  void join(peer_index peer) {
    const std::lock_guard lock{mutex_};
    seat& s = seats_[peer];
    CAUSEWAY_EXPECT(!s.taken);
    if (!s.alive) {  // a restart
      s.kept.clear();
      s.kept_size = 0;
      s.started.clear();
      s.operations = 0;
    }
    s.alive = s.taken = true;
  }

  void leave(peer_index peer) {
    const std::lock_guard lock{mutex_};
    lose(peer);
    seats_[peer].started.clear();
    seats_[peer].taken = false;
  }

  [[nodiscard]] traffic stats(peer_index self) const {
    const std::lock_guard lock{mutex_};
    return seats_[self].counters;
  }

  [[nodiscard]] std::uint64_t operations(peer_index peer) const {
    const std::lock_guard lock{mutex_};
    return seats_[peer].operations;
  }

  enum class effect : std::uint8_t { fail, kill, stall };

  void plan(peer_index peer, std::uint64_t nth, effect what, errc code) {
    const std::lock_guard lock{mutex_};
    seats_[peer].faults.push_back({nth, what, code});
  }

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
    bool stalled = false;
    std::optional<result<std::size_t>> done{};

    void end(result<std::size_t> outcome) { done.emplace(std::move(outcome)); }
    [[nodiscard]] bool open() const { return !done && !stalled; }
  };

  struct message {
    peer_index from = 0;
    message_id id;
    std::vector<std::byte> bytes;
  };

  struct seat {
    bool alive = true;  // a peer counts as alive before it has taken its seat, so that threads may start in any order
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

  static std::string name(peer_index peer) { return "peer " + std::to_string(peer); }

  // The parent is not part of the match: a message about another parent must be refused, not overlooked.
  static bool matches(const message_id& a, const message_id& b) {
    return a.channel == b.channel && a.epoch == b.epoch && a.step == b.step;
  }

  static const fault* planned_fault(const seat& s) {
    for (const fault& f : s.faults) {
      if (f.nth == s.operations) return &f;
    }
    return nullptr;
  }

  static operation refuse(seat& me, peer_index other, const char* why) {
    pending op{++me.last, other, {}, {}, {}, false};
    op.end(fail(errc::invalid_argument, name(other), why));
    me.started.push_back(std::move(op));
    return me.last;
  }

  void begin_send(peer_index self, pending& op) {
    if (!op.open()) return;
    seat& to = seats_[op.other];
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

  void begin_receive(peer_index self, pending& op) {
    if (!op.open()) return;
    seat& me = seats_[self];
    const auto kept = std::find_if(me.kept.begin(), me.kept.end(),
                                   [&](const message& m) { return m.from == op.other && matches(m.id, op.id); });
    if (kept != me.kept.end()) {
      deliver(kept->from, kept->id, kept->bytes, self, op);
      me.kept_size -= kept->bytes.size();
      me.kept.erase(kept);
      admit_senders(self);
      return;
    }
    for (pending& s : seats_[op.other].started) {  // senders that found no room
      if (!s.is_send || !s.open() || s.other != self || !matches(s.id, op.id)) continue;
      deliver(op.other, s.id, s.out, self, op);
      count_sent(op.other, s.out.size());
      s.end(s.out.size());
      seats_[op.other].changed.notify_all();
      return;
    }
    if (!seats_[op.other].alive) op.end(fail(errc::peer_lost, name(op.other), "the connection to it has ended"));
  }

  // Copies one message into a started receive, or refuses it.
  void deliver(peer_index from, const message_id& id, std::span<const std::byte> bytes, peer_index to, pending& receive) {
    count_received(to, bytes.size());
    seats_[to].changed.notify_all();
    if (id.parent != receive.id.parent) {
      ++seats_[to].counters.frames_rejected;
      return receive.end(fail(errc::wrong_parent, name(from), "its message is based on another committed state than ours"));
    }
    if (bytes.size() > receive.in.size()) {
      ++seats_[to].counters.frames_rejected;
      return receive.end(fail(errc::too_large, name(from),
                              "it sent " + std::to_string(bytes.size()) + " bytes where at most " +
                                  std::to_string(receive.in.size()) + " are expected"));
    }
    if (!bytes.empty()) std::memcpy(receive.in.data(), bytes.data(), bytes.size());
    receive.end(bytes.size());
  }

  void keep_if_room(peer_index self, pending& op) {
    seat& to = seats_[op.other];
    if (to.kept_size + op.out.size() > options_.kept_bytes) return;
    for (const pending& s : seats_[self].started) {  // must not overtake an earlier send that waits for room
      if (s.number < op.number && s.is_send && s.open() && s.other == op.other && matches(s.id, op.id)) return;
    }
    to.kept.push_back({self, op.id, {op.out.begin(), op.out.end()}});
    to.kept_size += op.out.size();
    count_sent(self, op.out.size());
    op.end(op.out.size());
    seats_[self].changed.notify_all();
  }

  void admit_senders(peer_index receiver) {
    for (peer_index p = 0; p < size(); ++p) {
      for (pending& s : seats_[p].started) {
        if (s.is_send && s.open() && s.other == receiver) keep_if_room(p, s);
      }
    }
  }

  void count_sent(peer_index from, std::size_t payload) {
    seats_[from].counters.bytes_sent += payload + options_.header_bytes;
    ++seats_[from].counters.frames_sent;
  }

  void count_received(peer_index to, std::size_t payload) {
    seats_[to].counters.bytes_received += payload + options_.header_bytes;
    ++seats_[to].counters.frames_received;
  }

  // Messages that the peer had sent stay readable, as bytes in a socket do.
  void lose(peer_index peer) {
    seats_[peer].alive = false;
    for (peer_index p = 0; p < size(); ++p) {
      for (pending& op : seats_[p].started) {
        if (op.done || (p != peer && op.other != peer)) continue;
        const peer_index gone = p == peer ? p : op.other;
        op.end(fail(errc::peer_lost, name(gone), "the connection to it has ended"));
      }
      seats_[p].changed.notify_all();
    }
  }

  memory_options options_;
  mutable std::mutex mutex_;
  std::deque<seat> seats_;  // not a vector: a seat does not move
};

}  // namespace detail

/// One peer's end of a memory_network. Movable; its destruction closes the peer's connections.
class memory_transport {
 public:
  memory_transport(std::shared_ptr<detail::memory_hub> hub, peer_index self) : hub_{std::move(hub)}, self_{self} {
    hub_->join(self_);
  }
  memory_transport(memory_transport&&) noexcept = default;
  memory_transport& operator=(memory_transport&& other) noexcept {
    std::swap(hub_, other.hub_);
    std::swap(self_, other.self_);
    return *this;
  }
  ~memory_transport() {
    if (hub_) hub_->leave(self_);
  }

  [[nodiscard]] peer_index self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return hub_->start(self_, to, id, bytes, {}, true);
  }
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return hub_->start(self_, from, id, {}, buffer, false);
  }
  /// errc::invalid_argument: the operation was waited for before, or names the peer itself. Other errors: see Transport.
  result<std::size_t> wait(operation op, time_point deadline) { return hub_->wait(self_, op, deadline); }
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
  explicit memory_network(std::uint32_t peers, memory_options options = {})
      : hub_{std::make_shared<detail::memory_hub>(peers, std::move(options))} {}

  [[nodiscard]] std::uint32_t size() const noexcept { return hub_->size(); }

  /// The end of one peer; one at a time per peer. Asking again after it was destroyed or killed is a restart: an empty
  /// mailbox, operations counted from 0 again.
  [[nodiscard]] memory_transport transport(peer_index peer) const { return {hub_, peer}; }

  /// Ends all connections of a peer at once, as if its machine had died.
  void kill(peer_index peer) const { hub_->lost(peer); }

  /// The n-th operation of `peer` is not carried out: waiting for it gives `code`.
  void fail_at(peer_index peer, std::uint64_t nth, errc code) const {
    hub_->plan(peer, nth, detail::memory_hub::effect::fail, code);
  }
  /// The peer dies when it starts its n-th operation.
  void kill_at(peer_index peer, std::uint64_t nth) const {
    hub_->plan(peer, nth, detail::memory_hub::effect::kill, errc::peer_lost);
  }
  /// The n-th operation of `peer` never ends by itself: only a deadline or a lost peer ends it.
  void stall_at(peer_index peer, std::uint64_t nth) const {
    hub_->plan(peer, nth, detail::memory_hub::effect::stall, errc::timeout);
  }

  /// Sends and receives that a peer has started.
  [[nodiscard]] std::uint64_t operations(peer_index peer) const { return hub_->operations(peer); }

 private:
  std::shared_ptr<detail::memory_hub> hub_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_MEMORY_TRANSPORT_HPP

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

  [[nodiscard]] std::int64_t tokens() const noexcept { return static_cast<std::int64_t>(inputs.size()); }
  [[nodiscard]] std::int64_t length() const noexcept { return sequences == 0 ? 0 : tokens() / sequences; }

  /// Sequences [first, first + count).
  [[nodiscard]] batch slice(std::int64_t first, std::int64_t count) const noexcept {
    const auto at = static_cast<std::size_t>(first * length());
    const auto n = static_cast<std::size_t>(count * length());
    return {inputs.subspan(at, n), targets.subspan(at, n), count};
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_BATCH_HPP

// ---- causeway/tensor/buffer.hpp ----
#ifndef CAUSEWAY_TENSOR_BUFFER_HPP
#define CAUSEWAY_TENSOR_BUFFER_HPP

// Aligned memory for numbers, asking for huge pages where they pay (reads gain a quarter on the reference machine).

#include <cstdlib>
#include <new>

#if defined(__linux__)
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

/// A fixed number of zeroed values of a trivial type. Movable, not copyable.
template <class T>
class aligned_buffer {
 public:
  aligned_buffer() = default;
  explicit aligned_buffer(std::size_t count) : data_{static_cast<T*>(allocate_aligned(bytes_of(count)))}, size_{count} {
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  aligned_buffer(aligned_buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  aligned_buffer& operator=(aligned_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~aligned_buffer() { std::free(data_); }

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

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_BUFFER_HPP

// ---- causeway/tensor/buffer_pool.hpp ----
#ifndef CAUSEWAY_TENSOR_BUFFER_POOL_HPP
#define CAUSEWAY_TENSOR_BUFFER_POOL_HPP

// Memory for activations: reference-counted blocks that go back to a free list of their size class and are handed out
// again, most recently used first (it may still be in cache). After the first step of a training run has seen every size,
// no step asks the operating system for memory. Eight classes per power of two: at most an eighth is wasted.

namespace causeway::inline CAUSEWAY_ABI {

class buffer_pool;

namespace detail {

struct pooled_block {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t size_class = 0;
  std::int64_t references = 0;
  buffer_pool* owner = nullptr;
  pooled_block* next = nullptr;
};

}  // namespace detail

/// A share in one block of a `buffer_pool`; the last share gives the block back. Counts are not atomic: blocks of a pool
/// are shared and released by one thread at a time.
class pooled_buffer {
 public:
  pooled_buffer() = default;
  pooled_buffer(const pooled_buffer& other) noexcept : block_{other.block_} {
    if (block_ != nullptr) ++block_->references;
  }
  pooled_buffer(pooled_buffer&& other) noexcept : block_{std::exchange(other.block_, nullptr)} {}
  pooled_buffer& operator=(pooled_buffer other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~pooled_buffer();

  [[nodiscard]] void* data() const noexcept { return block_ == nullptr ? nullptr : block_->data; }
  [[nodiscard]] std::size_t bytes() const noexcept { return block_ == nullptr ? 0 : block_->bytes; }
  /// Whether nobody else holds this block, so that it may be overwritten.
  [[nodiscard]] bool unique() const noexcept { return block_ != nullptr && block_->references == 1; }

 private:
  friend class buffer_pool;
  explicit pooled_buffer(detail::pooled_block* block) noexcept : block_{block} { ++block->references; }

  detail::pooled_block* block_ = nullptr;
};

/// Hands out blocks and keeps what comes back. Must outlive its blocks; not movable; one thread at a time.
class buffer_pool {
 public:
  buffer_pool() = default;
  buffer_pool(const buffer_pool&) = delete;
  buffer_pool& operator=(const buffer_pool&) = delete;
  ~buffer_pool() {
    CAUSEWAY_EXPECT(in_use_ == 0);
    trim();
  }

  /// At least `bytes` bytes, 64-byte aligned, not initialised. Throws std::bad_alloc.
  [[nodiscard]] pooled_buffer acquire(std::size_t bytes) {
    const std::size_t size_class = class_of(bytes);
    detail::pooled_block* block = free_[size_class];
    if (block != nullptr) {
      free_[size_class] = std::exchange(block->next, nullptr);
    } else {
      block = create(size_class);
    }
    in_use_ += block->bytes;
    peak_in_use_ = std::max(peak_in_use_, in_use_);
    if (poison_) std::memset(block->data, 0xFF, block->bytes);
    return pooled_buffer{block};
  }

  /// What a request for `bytes` really takes.
  [[nodiscard]] static constexpr std::size_t rounded(std::size_t bytes) noexcept { return bytes_of(class_of(bytes)); }

  /// Gives unused blocks back to the system.
  void trim() noexcept {
    for (auto& head : free_) {
      while (head != nullptr) {
        detail::pooled_block* block = std::exchange(head, head->next);
        held_ -= block->bytes;
        std::free(block->data);
        delete block;
      }
    }
  }

  /// Bytes in blocks that somebody holds.
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::size_t peak_in_use() const noexcept { return peak_in_use_; }
  /// Bytes taken from the system, unused blocks included; and the most there ever were.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] std::size_t peak_held() const noexcept { return peak_held_; }
  /// How often memory was asked of the system; constant in a steady training run.
  [[nodiscard]] std::uint64_t allocations() const noexcept { return allocations_; }

  /// Fills every block handed out from now on with NaN, to find code that reads what it never wrote.
  void poison(bool on) noexcept { poison_ = on; }

 private:
  friend class pooled_buffer;

  // Class c with c = 8·e + m holds (8 + m)·2^e cache lines, m in 0..7.
  static constexpr std::size_t line = 64;
  static constexpr std::size_t classes = 8 * 48;

  static constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
    return ((8 + size_class % 8) << (size_class / 8)) * line;
  }
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    const std::size_t lines = std::max<std::size_t>((bytes + line - 1) / line, 8);
    const auto exponent = static_cast<std::size_t>(std::bit_width(lines)) - 4;
    const std::size_t mantissa = (lines + (std::size_t{1} << exponent) - 1) >> exponent;  // 8..16
    return 8 * exponent + (mantissa - 8);                                                 // 16 is the next exponent's 8
  }

  [[nodiscard]] detail::pooled_block* create(std::size_t size_class) {
    CAUSEWAY_EXPECT(size_class < classes);
    auto* block = new detail::pooled_block{};
    block->bytes = bytes_of(size_class);
    block->size_class = size_class;
    block->owner = this;
    block->data = allocate_or_delete(block);
    held_ += block->bytes;
    peak_held_ = std::max(peak_held_, held_);
    ++allocations_;
    return block;
  }

  static void* allocate_or_delete(detail::pooled_block* block) {
    try {
      return allocate_aligned(block->bytes);
    } catch (...) {
      delete block;
      throw;
    }
  }

  void give_back(detail::pooled_block* block) noexcept {
    in_use_ -= block->bytes;
    block->next = std::exchange(free_[block->size_class], block);
  }

  std::array<detail::pooled_block*, classes> free_{};
  std::size_t in_use_ = 0;
  std::size_t peak_in_use_ = 0;
  std::size_t held_ = 0;
  std::size_t peak_held_ = 0;
  std::uint64_t allocations_ = 0;
  bool poison_ = false;
};

inline pooled_buffer::~pooled_buffer() {
  if (block_ != nullptr && --block_->references == 0) block_->owner->give_back(block_);
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_BUFFER_POOL_HPP

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
  void allocate() {
    values_ = aligned_buffer<float>{static_cast<std::size_t>(length_)};
    gradients_ = aligned_buffer<float>{static_cast<std::size_t>(length_)};
  }

  [[nodiscard]] std::span<float> values() noexcept { return values_.span(); }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_.span(); }
  [[nodiscard]] std::span<float> gradients() noexcept { return gradients_.span(); }
  [[nodiscard]] std::span<const parameter_segment> segments() const noexcept { return segments_; }
  [[nodiscard]] parameter_view view() noexcept { return {values(), gradients(), segments_}; }

  [[nodiscard]] float* value(std::size_t segment) noexcept { return values_.data() + segments_[segment].offset; }
  [[nodiscard]] float* gradient(std::size_t segment) noexcept { return gradients_.data() + segments_[segment].offset; }

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

// ---- causeway/tensor/shape.hpp ----
#ifndef CAUSEWAY_TENSOR_SHAPE_HPP
#define CAUSEWAY_TENSOR_SHAPE_HPP

// Up to four dimensions, row-major, the last one contiguous. Kernels see every tensor as rows × columns, where the columns
// are the last dimension.

#include <initializer_list>

namespace causeway::inline CAUSEWAY_ABI {

/// The dimensions of a tensor, outermost first. A default-constructed shape has no dimension and one element.
class tensor_shape {
 public:
  static constexpr std::size_t max_rank = 4;

  constexpr tensor_shape() noexcept = default;
  constexpr tensor_shape(std::initializer_list<std::int64_t> dimensions) noexcept {
    CAUSEWAY_EXPECT(dimensions.size() <= max_rank);
    for (const std::int64_t d : dimensions) {
      CAUSEWAY_EXPECT(d >= 0);
      dimensions_[rank_++] = d;
    }
  }

  [[nodiscard]] constexpr std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t i) const noexcept { return dimensions_[i]; }

  /// The product of all dimensions.
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < rank_; ++i) product *= dimensions_[i];
    return product;
  }

  /// The last dimension; 1 when there is none.
  [[nodiscard]] constexpr std::int64_t columns() const noexcept { return rank_ == 0 ? 1 : dimensions_[rank_ - 1]; }

  /// The product of all dimensions but the last.
  [[nodiscard]] constexpr std::int64_t rows() const noexcept {
    std::int64_t product = 1;
    for (std::size_t i = 0; i + 1 < rank_; ++i) product *= dimensions_[i];
    return product;
  }

  /// "[4, 256, 768]".
  [[nodiscard]] std::string text() const {
    std::string line = "[";
    for (std::size_t i = 0; i < rank_; ++i) {
      if (i != 0) line += ", ";
      line += std::to_string(dimensions_[i]);
    }
    return line + "]";
  }

  friend constexpr bool operator==(const tensor_shape&, const tensor_shape&) = default;

 private:
  std::array<std::int64_t, max_rank> dimensions_{};
  std::size_t rank_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_SHAPE_HPP

// ---- causeway/tensor/tensor.hpp ----
#ifndef CAUSEWAY_TENSOR_TENSOR_HPP
#define CAUSEWAY_TENSOR_TENSOR_HPP

// A contiguous row-major tensor: a handle to pooled memory, or a view of memory that somebody else owns (a parameter, a
// received activation). Copying a handle shares the numbers; `unique()` says whether they may be overwritten.

namespace causeway::inline CAUSEWAY_ABI {

/// Handle to numbers of one dtype. Not safe to copy or release from two threads at once.
class tensor {
 public:
  tensor() = default;
  tensor(const tensor&) = default;
  tensor(tensor&& other) noexcept
      : memory_{std::move(other.memory_)},
        data_{std::exchange(other.data_, nullptr)},
        shape_{other.shape_},
        type_{other.type_} {}
  tensor& operator=(tensor other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(shape_, other.shape_);
    std::swap(type_, other.type_);
    return *this;
  }
  ~tensor() = default;

  /// Memory from `pool`, not initialised. Throws std::bad_alloc.
  [[nodiscard]] static tensor make(buffer_pool& pool, dtype type, tensor_shape shape) {
    tensor t;
    t.memory_ = pool.acquire(static_cast<std::size_t>(shape.count()) * size_of(type));
    t.data_ = t.memory_.data();
    t.shape_ = shape;
    t.type_ = type;
    return t;
  }

  /// A view of memory that must stay where it is while the view is used.
  template <class T>
  [[nodiscard]] static tensor borrow(T* data, tensor_shape shape) noexcept {
    tensor t;
    t.data_ = data;
    t.shape_ = shape;
    t.type_ = dtype_of<T>;
    return t;
  }

  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] const tensor_shape& shape() const noexcept { return shape_; }
  [[nodiscard]] dtype type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t count() const noexcept { return shape_.count(); }
  [[nodiscard]] std::int64_t rows() const noexcept { return shape_.rows(); }
  [[nodiscard]] std::int64_t columns() const noexcept { return shape_.columns(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(count()) * size_of(type_); }

  /// The numbers; `T` must be the element type.
  template <class T>
  [[nodiscard]] T* data() const noexcept {
    CAUSEWAY_EXPECT(data_ == nullptr || dtype_of<T> == type_);
    return static_cast<T*>(data_);
  }

  [[nodiscard]] void* raw() const noexcept { return data_; }

  template <class T>
  [[nodiscard]] std::span<T> span() const noexcept {
    return {data<T>(), data_ == nullptr ? 0 : static_cast<std::size_t>(count())};
  }

  /// Whether this handle alone owns its memory. A view never does.
  [[nodiscard]] bool unique() const noexcept { return memory_.unique(); }

  /// The same numbers with other dimensions.
  [[nodiscard]] tensor reshaped(tensor_shape shape) const& { return tensor{*this}.reshaped_in_place(shape); }
  [[nodiscard]] tensor reshaped(tensor_shape shape) && { return std::move(reshaped_in_place(shape)); }

  void reset() noexcept { *this = tensor{}; }

 private:
  tensor& reshaped_in_place(tensor_shape shape) {
    CAUSEWAY_EXPECT(shape.count() == shape_.count());
    shape_ = shape;
    return *this;
  }

  pooled_buffer memory_;
  void* data_ = nullptr;
  tensor_shape shape_;
  dtype type_ = dtype::f32;
};

/// A parameter as a rows × columns view of the store, and its gradient likewise. Valid while the store lives.
[[nodiscard]] inline tensor value_view(parameter_store& store, std::size_t segment) noexcept {
  const auto& s = store.segments()[segment];
  return tensor::borrow(store.value(segment), {s.rows, s.columns});
}
[[nodiscard]] inline tensor gradient_view(parameter_store& store, std::size_t segment) noexcept {
  const auto& s = store.segments()[segment];
  return tensor::borrow(store.gradient(segment), {s.rows, s.columns});
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TENSOR_TENSOR_HPP

// ---- causeway/data/sampler.hpp ----
#ifndef CAUSEWAY_DATA_SAMPLER_HPP
#define CAUSEWAY_DATA_SAMPLER_HPP

// Which window of the training tokens comes when. The order is a pure function of (seed, number of the sample since the
// start of the run), stored nowhere: every peer can compute every other peer's samples, and a run resumes from one integer.
// Each epoch visits every window exactly once, in another order.

namespace causeway::inline CAUSEWAY_ABI::data {

/// A seeded permutation of [0, size), computed, not stored: a Feistel network over the next even power of two, walked until
/// it lands inside (Black and Rogaway 2002). At most four network evaluations on average. A regular value.
class permutation {
 public:
  constexpr permutation() noexcept = default;

  constexpr permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) noexcept
      : size_{size}, half_bits_{(static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2} {
    CAUSEWAY_EXPECT(size > 0);
    for (std::uint64_t round = 0; round < rounds; ++round) keys_[round] = mix(seed, stream, round);
  }

  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return size_; }

  /// Where `index` goes; `index` must be below size().
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t index) const noexcept {
    CAUSEWAY_EXPECT(index < size_);
    do {
      index = network(index);
    } while (index >= size_);  // ends: the walk stays on the cycle of a bijection, which contains the start
    return index;
  }

 private:
  static constexpr std::size_t rounds = 6;

  [[nodiscard]] constexpr std::uint64_t network(std::uint64_t x) const noexcept {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = x >> half_bits_;
    std::uint64_t right = x & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t mixed = left ^ (causeway::detail::scramble(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t size_ = 1;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, rounds> keys_{};
};

/// One training window: tokens [first, first + T) are inputs, [first + 1, first + T + 1) their targets.
struct sample {
  std::uint64_t epoch = 0;
  std::int64_t window = 0;  ///< its number on the epoch's grid
  std::int64_t first = 0;   ///< its first token

  friend constexpr bool operator==(const sample&, const sample&) = default;
};

struct sampler_options {
  std::int64_t context_length = 0;  ///< T
  std::uint64_t seed = 1;           ///< equal on all peers of a run
  /// Shifts the grid of windows by a random 0..T-1 tokens each epoch, so that windows are not always cut at the same
  /// places. Leaves out up to T tokens of an epoch (other ones each time); done only from 64 windows on.
  bool shift_grid = true;
};

/// Maps the n-th sample of a run to a window. Thread-safe: sample_at changes nothing.
class sampler {
 public:
  /// errc::bad_text if there is not a single window of T + 1 tokens.
  static result<sampler> make(std::int64_t tokens, const sampler_options& options) {
    const std::int64_t length = options.context_length;
    if (length <= 0) return fail(errc::invalid_argument, "context_length", "must be positive");
    if (tokens < length + 1) {
      return fail(errc::bad_text, "training tokens",
                  "too short: " + std::to_string(tokens) + " tokens, one window of context length " +
                      std::to_string(length) + " needs " + std::to_string(length + 1) +
                      ". Give more text, or shorten the context");
    }
    return sampler{tokens, options};
  }

  /// Windows per epoch, the same in every epoch.
  [[nodiscard]] std::int64_t windows() const noexcept { return windows_; }
  [[nodiscard]] std::int64_t context_length() const noexcept { return options_.context_length; }

  /// The n-th sample of the run, all peers together.
  [[nodiscard]] sample sample_at(std::uint64_t n) const noexcept {
    const auto count = static_cast<std::uint64_t>(windows_);
    const std::uint64_t epoch = n / count;
    const permutation order{count, options_.seed, mix(epoch, order_stream)};
    const auto window = static_cast<std::int64_t>(order(n % count));
    return {epoch, window, offset_of(epoch) + window * options_.context_length};
  }

  /// First token of the grid in an epoch.
  [[nodiscard]] std::int64_t offset_of(std::uint64_t epoch) const noexcept {
    if (!shifted_) return 0;
    return static_cast<std::int64_t>(
        rng{options_.seed, mix(epoch, shift_stream)}.below(static_cast<std::uint64_t>(options_.context_length)));
  }

  /// Equal on peers that draw the same samples.
  [[nodiscard]] std::uint64_t hash() const noexcept {
    return mix(mix(options_.seed, static_cast<std::uint64_t>(options_.context_length), shifted_ ? 1 : 0),
               static_cast<std::uint64_t>(tokens_));
  }

 private:
  static constexpr std::uint64_t order_stream = 0x6F72646572;  // "order"
  static constexpr std::uint64_t shift_stream = 0x7368696674;  // "shift"

  sampler(std::int64_t tokens, const sampler_options& options) noexcept : options_{options}, tokens_{tokens} {
    const std::int64_t length = options.context_length;
    windows_ = (tokens - 1) / length;
    // The last window of the most shifted grid ends at T-1 + W*T, its last target one later: W = tokens/T - 1.
    shifted_ = options.shift_grid && tokens / length - 1 >= 64;
    if (shifted_) windows_ = tokens / length - 1;
  }

  sampler_options options_;
  std::int64_t tokens_ = 0;
  std::int64_t windows_ = 0;
  bool shifted_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_SAMPLER_HPP

// ---- causeway/data/token_stream.hpp ----
#ifndef CAUSEWAY_DATA_TOKEN_STREAM_HPP
#define CAUSEWAY_DATA_TOKEN_STREAM_HPP

// A long sequence of token numbers that can be read anywhere: made in memory, or mapped from a file. A cheap handle; copies
// and slices share the tokens, which never change.

namespace causeway::inline CAUSEWAY_ABI::data {

/// Bytes per stored token.
enum class token_width : std::uint8_t { two = 2, four = 4 };

/// Safe to read from several threads.
class token_stream {
 public:
  token_stream() = default;

  /// Tokens in memory, at two bytes each where all fit.
  explicit token_stream(std::span<const std::int32_t> tokens) : size_{static_cast<std::int64_t>(tokens.size())} {
    const bool narrow = std::all_of(tokens.begin(), tokens.end(), [](std::int32_t t) { return t >= 0 && t <= 0xFFFF; });
    width_ = narrow ? token_width::two : token_width::four;
    if (narrow) {
      own(std::vector<std::uint16_t>(tokens.begin(), tokens.end()));
    } else {
      own(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
    }
  }

  /// Tokens at `data`, little-endian, kept alive by `owner`. No alignment is needed.
  token_stream(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size, token_width width)
      : owner_{std::move(owner)}, data_{data}, size_{size}, width_{width} {}

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Tokens [first, first + out.size()) into `out`; they must exist.
  void read(std::int64_t first, std::span<std::int32_t> out) const noexcept {
    CAUSEWAY_EXPECT(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= size_);
    if (width_ == token_width::two) {
      copy<std::uint16_t>(first, out);
    } else {
      copy<std::int32_t>(first, out);
    }
  }

  /// Tokens [first, first + count), cut to what exists.
  [[nodiscard]] token_stream slice(std::int64_t first, std::int64_t count) const {
    first = std::clamp<std::int64_t>(first, 0, size_);
    count = std::clamp<std::int64_t>(count, 0, size_ - first);
    return {owner_, data_ == nullptr ? nullptr : data_ + first * static_cast<std::int64_t>(width_), count, width_};
  }

  /// Reads all tokens once: errc::bad_text at the first that a model with `vocabulary` tokens does not know.
  [[nodiscard]] result<void> check_vocabulary(std::int64_t vocabulary) const {
    std::vector<std::int32_t> part(4096);
    for (std::int64_t at = 0; at < size_; at += static_cast<std::int64_t>(part.size())) {
      part.resize(static_cast<std::size_t>(std::min<std::int64_t>(4096, size_ - at)));
      read(at, part);
      const auto bad = std::find_if(part.begin(), part.end(), [&](std::int32_t t) { return t < 0 || t >= vocabulary; });
      if (bad == part.end()) continue;
      return fail(errc::bad_text, "token " + std::to_string(at + (bad - part.begin())),
                  "number " + std::to_string(static_cast<std::uint32_t>(*bad)) + " is outside the vocabulary of " +
                      std::to_string(vocabulary) + ". Use the tokenizer that made the tokens");
    }
    return {};
  }

  /// A checksum of the tokens, whatever their width: equal on peers that train on the same data. Reads everything.
  [[nodiscard]] std::uint64_t content_hash() const {
    std::vector<std::int32_t> part(4096);  // a multiple of the hash's stripe
    hasher h;
    for (std::int64_t at = 0; at < size_; at += 4096) {
      part.resize(static_cast<std::size_t>(std::min<std::int64_t>(4096, size_ - at)));
      read(at, part);
      h.add_values(std::span<const std::int32_t>{part});
    }
    return h.finish();
  }

 private:
  template <class T>
  void own(std::vector<T> tokens) {
    auto shared = std::make_shared<const std::vector<T>>(std::move(tokens));
    data_ = std::as_bytes(std::span{*shared}).data();
    owner_ = std::move(shared);
  }

  template <class T>
  void copy(std::int64_t first, std::span<std::int32_t> out) const noexcept {
    const std::byte* from = data_ + first * static_cast<std::int64_t>(sizeof(T));
    for (std::size_t i = 0; i < out.size(); ++i) {
      T token;
      std::memcpy(&token, from + i * sizeof(T), sizeof(T));
      out[i] = token;
    }
  }

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  token_width width_ = token_width::two;
};

struct token_split {
  token_stream train;
  token_stream validation;
};

/// The last `fraction` of the tokens for validation (rounded down to whole tokens), the rest for training: one cut, so that
/// no training window overlaps a validation window. `fraction` must lie in [0, 1).
inline token_split split_fraction(const token_stream& tokens, double fraction) {
  CAUSEWAY_EXPECT(fraction >= 0.0 && fraction < 1.0);
  const auto last = static_cast<std::int64_t>(static_cast<double>(tokens.size()) * fraction);
  return {tokens.slice(0, tokens.size() - last), tokens.slice(tokens.size() - last, last)};
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_TOKEN_STREAM_HPP

// ---- causeway/data/batcher.hpp ----
#ifndef CAUSEWAY_DATA_BATCHER_HPP
#define CAUSEWAY_DATA_BATCHER_HPP

// Batches for training and for validation. The global batch of a step depends on the seed and on how many samples the run
// has used, not on how many peers share it: peer p of n takes its contiguous part. The whole state is one integer.

namespace causeway::inline CAUSEWAY_ABI::data {

/// Sequences [begin, end) of a global batch of `sequences` that peer `peer` of `peers` takes: p*b to (p+1)*b where b =
/// sequences / peers is whole; otherwise parts differ by one.
constexpr index_range part_of_batch(std::int64_t sequences, std::uint32_t peer, std::uint32_t peers) noexcept {
  return share_of(sequences, peer, peers);
}

/// Fills [B, T] inputs and targets. The spans of a batch stay valid until the next call. Not safe to share between threads.
class batcher {
 public:
  /// `global_batch`: sequences per step, all peers together. Errors: errc::bad_text (too few tokens),
  /// errc::invalid_argument.
  static result<batcher> make(token_stream tokens, const sampler_options& options, std::int64_t global_batch) {
    if (global_batch <= 0) return fail(errc::invalid_argument, "global batch", "must be at least one sequence");
    CAUSEWAY_ASSIGN(sampler order, sampler::make(tokens.size(), options));
    return batcher{std::move(tokens), order, global_batch};
  }

  /// This peer's part of the current step's batch; does not advance. A retried step gets the same batch.
  batch current(std::uint32_t peer = 0, std::uint32_t peers = 1) {
    const index_range part = part_of_batch(global_batch_, peer, peers);
    return at(cursor_ + static_cast<std::uint64_t>(part.begin), part.size());
  }

  /// Goes on to the next step, on every peer alike.
  void advance() noexcept { cursor_ += static_cast<std::uint64_t>(global_batch_); }

  /// `current`, then `advance`.
  batch next(std::uint32_t peer = 0, std::uint32_t peers = 1) {
    const batch b = current(peer, peers);
    advance();
    return b;
  }

  /// Samples [first, first + sequences) of the run, also across the end of an epoch.
  batch at(std::uint64_t first, std::int64_t sequences) {
    const auto length = static_cast<std::size_t>(order_.context_length());
    window_.resize(length + 1);
    inputs_.resize(static_cast<std::size_t>(sequences) * length);
    targets_.resize(inputs_.size());
    for (std::size_t i = 0; i < static_cast<std::size_t>(sequences); ++i) {
      tokens_.read(order_.sample_at(first + i).first, window_);
      std::copy_n(window_.data(), length, inputs_.data() + i * length);
      std::copy_n(window_.data() + 1, length, targets_.data() + i * length);
    }
    return {inputs_, targets_, sequences};
  }

  /// Samples that the run has used, all peers together: the position in the data.
  [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }
  void seek(std::uint64_t cursor) noexcept { cursor_ = cursor; }
  /// How often the run has seen the data, as a fraction.
  [[nodiscard]] double epochs() const noexcept {
    return static_cast<double>(cursor_) / static_cast<double>(order_.windows());
  }

  [[nodiscard]] const sampler& order() const noexcept { return order_; }
  [[nodiscard]] const token_stream& tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t global_batch() const noexcept { return global_batch_; }
  /// Takes effect with the current step; the position stays.
  void set_global_batch(std::int64_t sequences) noexcept {
    CAUSEWAY_EXPECT(sequences > 0);
    global_batch_ = sequences;
  }

  /// The position only: tokens, seed and sizes come from the program.
  static constexpr std::uint32_t state_version = 1;
  template <class Archive>
  void serialize(Archive& ar) {
    ar(cursor_);
  }

 private:
  batcher(token_stream tokens, const sampler& order, std::int64_t global_batch)
      : tokens_{std::move(tokens)}, order_{order}, global_batch_{global_batch} {}

  token_stream tokens_;
  sampler order_;
  std::int64_t global_batch_;
  std::uint64_t cursor_ = 0;
  std::vector<std::int32_t> window_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

/// A fixed set of windows for validation: the same in every run, spread evenly over the tokens, not overlapping. Spans stay
/// valid until the next call. Not safe to share between threads.
class validation_windows {
 public:
  /// At most `limit` windows of T tokens; all of them if there are fewer. errc::bad_text if there is none.
  static result<validation_windows> make(token_stream tokens, std::int64_t context_length, std::int64_t limit) {
    if (context_length <= 0 || limit <= 0) {
      return fail(errc::invalid_argument, "validation", "context length and number of windows must be positive");
    }
    const std::int64_t available = tokens.size() == 0 ? 0 : (tokens.size() - 1) / context_length;
    if (available == 0) {
      return fail(errc::bad_text, "validation tokens",
                  "too short: " + std::to_string(tokens.size()) + " tokens, one window needs " +
                      std::to_string(context_length + 1) + ". Give more text, or keep a larger part of it for validation");
    }
    return validation_windows{std::move(tokens), context_length, std::min(limit, available), available};
  }

  /// Number of windows.
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }

  /// First token of window `index`.
  [[nodiscard]] std::int64_t first_token(std::int64_t index) const noexcept {
    return index * available_ / count_ * length_;
  }

  /// Windows [first, first + count), which must exist.
  batch at(std::int64_t first, std::int64_t count) {
    CAUSEWAY_EXPECT(first >= 0 && count >= 0 && first + count <= count_);
    const auto length = static_cast<std::size_t>(length_);
    inputs_.resize(static_cast<std::size_t>(count) * length);
    targets_.resize(inputs_.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t row = static_cast<std::size_t>(i) * length;
      const std::int64_t token = first_token(first + i);
      tokens_.read(token, std::span{inputs_}.subspan(row, length));
      tokens_.read(token + 1, std::span{targets_}.subspan(row, length));
    }
    return {inputs_, targets_, count};
  }

 private:
  validation_windows(token_stream tokens, std::int64_t length, std::int64_t count, std::int64_t available)
      : tokens_{std::move(tokens)}, length_{length}, count_{count}, available_{available} {}

  token_stream tokens_;
  std::int64_t length_;
  std::int64_t count_;
  std::int64_t available_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_BATCHER_HPP

// ---- causeway/data/pre_tokenizer.hpp ----
#ifndef CAUSEWAY_DATA_PRE_TOKENIZER_HPP
#define CAUSEWAY_DATA_PRE_TOKENIZER_HPP

// Cuts text into the pieces that byte-pair merges never cross. On ASCII the cuts are those of GPT-2 (Radford et al. 2019):
//   's 't 're 've 'm 'll 'd | space? letters | space? digits | space? others | blanks
// where a run of blanks leaves its last one to what follows. Every byte from 0x80 on counts as a letter, so that UTF-8
// needs no tables; and a run longer than 64 bytes is cut (between characters), which bounds the cost of hostile input.
// The pieces in order are the text, for any bytes.

namespace causeway::inline CAUSEWAY_ABI::data {

/// No piece is longer, in bytes.
inline constexpr std::size_t longest_piece = 64;

namespace detail {

enum class byte_class : std::uint8_t { letter, digit, blank, other };

constexpr byte_class class_of(char c) noexcept {
  const auto u = static_cast<unsigned char>(c);
  if ((u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u >= 0x80) return byte_class::letter;
  if (u >= '0' && u <= '9') return byte_class::digit;
  return u == ' ' || (u >= '\t' && u <= '\r') ? byte_class::blank : byte_class::other;
}

/// Length of the run of one class that starts at `at`.
constexpr std::size_t run_length(std::string_view text, std::size_t at) noexcept {
  const byte_class wanted = class_of(text[at]);
  std::size_t end = at + 1;
  while (end < text.size() && class_of(text[end]) == wanted) ++end;
  return end - at;
}

/// Length of 's, 't, 're, 've, 'm, 'll or 'd at the start of `text`, or 0.
constexpr std::size_t contraction(std::string_view text) noexcept {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const std::string_view one = text.substr(1, 1);
  if (one == "s" || one == "t" || one == "m" || one == "d") return 2;
  const std::string_view two = text.substr(1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

/// `length`, or less if that is too long: cut where no UTF-8 sequence is in progress.
constexpr std::size_t bounded_piece(std::string_view text, std::size_t length) noexcept {
  if (length <= longest_piece) return length;
  std::size_t cut = longest_piece;
  while (cut > longest_piece - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return cut > longest_piece - 4 ? cut : longest_piece;
}

}  // namespace detail

/// Length of the first piece of `text`; 0 only for an empty text.
constexpr std::size_t first_piece(std::string_view text) noexcept {
  if (text.empty()) return 0;
  if (const std::size_t length = detail::contraction(text)) return length;
  std::size_t length = detail::run_length(text, 0);
  if (detail::class_of(text[0]) == detail::byte_class::blank) {
    const bool more = length < text.size();
    if (more && length > 1) {
      --length;  // the last blank goes with what follows
    } else if (more && text[0] == ' ') {
      length = 1 + detail::run_length(text, 1);
    }
  }
  return detail::bounded_piece(text, length);
}

/// Calls `f(piece)` for each piece, in order.
template <class F>
constexpr void for_each_piece(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t length = first_piece(text);
    f(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_PRE_TOKENIZER_HPP

// ---- causeway/data/text.hpp ----
#ifndef CAUSEWAY_DATA_TEXT_HPP
#define CAUSEWAY_DATA_TEXT_HPP

// Reading training text: one file, or all text files of a folder in an order that is the same on every machine. What is
// given out is valid UTF-8, unless the caller switches the check off.

#include <filesystem>
#include <system_error>

namespace causeway::inline CAUSEWAY_ABI::data {

struct text_options {
  /// Files of a folder that are read; empty: all regular files. A path that names a file is read whatever its name.
  std::vector<std::string> extensions{".txt", ".text", ".md", ".rst"};
  std::size_t minimum_bytes = 1;  ///< less than this in all documents together is an error
  bool require_utf8 = true;       ///< the tokenizers take any bytes; a broken file is usually a mistake
};

struct document {
  std::string name;  ///< the path it was read from
  std::string text;
};

/// Offset of the first byte that is not part of valid UTF-8 (RFC 3629: no surrogates, no overlong forms), if there is one.
std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept;

/// One document for a file; for a folder one for each text file in it and below, ordered by path, byte by byte. Hidden
/// files and folders (a leading dot) are left out. Errors: errc::not_found (no such path, no text file), errc::bad_text
/// (empty, too short, not UTF-8: with file, offset and line), errc::io_failed.
inline result<std::vector<document>> load_documents(const std::string& path, const text_options& options = {});

/// All documents as one text, with an empty line between two documents.
inline result<std::string> load_text(const std::string& path, const text_options& options = {}) {
  CAUSEWAY_ASSIGN(const std::vector<document> documents, load_documents(path, options));
  std::string text;
  for (const document& d : documents) {
    if (!text.empty()) text += text.back() == '\n' ? "\n" : "\n\n";
    text += d.text;
  }
  return text;
}

namespace detail {

/// Length of the well-formed sequence at the start of `s`, or 0 (Unicode 15, table 3-7).
inline std::size_t utf8_sequence(std::string_view s) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (s.size() < length) return 0;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;   // no overlong forms
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;  // no surrogates, nothing past U+10FFFF
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

inline result<std::vector<std::string>> text_files(const std::string& folder, const text_options& options) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code failure;
  fs::recursive_directory_iterator it{folder, fs::directory_options::follow_directory_symlink, failure};
  for (; !failure && it != fs::recursive_directory_iterator{}; it.increment(failure)) {
    const fs::path& entry = it->path();
    std::error_code ignored;
    if (entry.filename().native().starts_with('.')) {
      if (it->is_directory(ignored)) it.disable_recursion_pending();
      continue;
    }
    const auto& wanted = options.extensions;
    const bool fits = wanted.empty() || std::find(wanted.begin(), wanted.end(), entry.extension()) != wanted.end();
    if (fits && it->is_regular_file(ignored)) paths.push_back(entry.string());
  }
  if (failure) return fail(errc::io_failed, folder, "could not read the folder: " + failure.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline error not_utf8(const document& d, std::size_t offset) {
  const auto line = 1 + std::count(d.text.begin(), d.text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  constexpr std::string_view digits = "0123456789abcdef";
  const auto bad = static_cast<unsigned char>(d.text[offset]);
  return fail(errc::bad_text, d.name,
              std::string{"not UTF-8: byte 0x"} + digits[bad >> 4U] + digits[bad & 15U] + " at offset " +
                  std::to_string(offset) + ", line " + std::to_string(line) +
                  ". Convert the file (iconv -f LATIN1 -t UTF-8), or leave it out");
}

inline result<document> load_document(const std::string& path, const text_options& options) {
  CAUSEWAY_ASSIGN(const io::mapped_file file, io::mapped_file::open(path));
  document d{path, std::string{reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}};
  if (options.require_utf8) {
    if (const auto bad = first_invalid_utf8(d.text)) return not_utf8(d, *bad);
  }
  return d;
}

inline std::string wanted_extensions(const text_options& options) {
  std::string list;
  for (const std::string& e : options.extensions) list += (list.empty() ? "*" : ", *") + e;
  return list.empty() ? "regular files" : list;
}

}  // namespace detail

inline std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = detail::utf8_sequence(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

inline result<std::vector<document>> load_documents(const std::string& path, const text_options& options) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    return fail(errc::not_found, path, "there is no such file or folder. Check the path of the training text");
  }
  std::vector<std::string> paths{path};
  if (std::filesystem::is_directory(status)) {
    CAUSEWAY_ASSIGN(paths, detail::text_files(path, options));
    if (paths.empty()) {
      return fail(errc::not_found, path,
                  "the folder holds no text (" + detail::wanted_extensions(options) +
                      "). Give another folder, or a file by its full path");
    }
  }
  std::vector<document> documents;
  std::size_t bytes = 0;
  for (const std::string& p : paths) {
    CAUSEWAY_ASSIGN(document d, detail::load_document(p, options));
    bytes += d.text.size();
    if (!d.text.empty()) documents.push_back(std::move(d));
  }
  if (bytes == 0) return fail(errc::bad_text, path, "the text is empty. Give a file with text in it");
  if (bytes < options.minimum_bytes) {
    return fail(errc::bad_text, path,
                "the text is too short: " + std::to_string(bytes) + " bytes, " + std::to_string(options.minimum_bytes) +
                    " are needed. Give more text, or shorten the context");
  }
  return documents;
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_TEXT_HPP

// ---- causeway/data/tokenizer.hpp ----
#ifndef CAUSEWAY_DATA_TOKENIZER_HPP
#define CAUSEWAY_DATA_TOKENIZER_HPP

// What a tokenizer is, and the simplest one: a token per byte. Decoding is the exact inverse of encoding for any bytes, not
// only for valid text.

namespace causeway::inline CAUSEWAY_ABI::data {

/// Requirements.
/// - `encode(text, out)` appends the tokens of `text` to `out`. Never produces the end-of-text token.
/// - `decode(tokens, out)` appends their bytes; errc::invalid_argument for a number outside the vocabulary. End of text has
///   no bytes.
/// - `end_of_text()` is what stands between documents, if the tokenizer has it.
/// - `hash()` is equal where the same text gives the same tokens.
template <class T>
concept Tokenizer = std::movable<T> && requires(T& t, const T& c, std::string_view text, std::vector<std::int32_t>& tokens,
                                                std::span<const std::int32_t> numbers, std::string& bytes) {
  { c.vocabulary() } -> std::same_as<std::int64_t>;
  { c.end_of_text() } -> std::same_as<std::optional<std::int32_t>>;
  { c.hash() } -> std::same_as<std::uint64_t>;
  { t.encode(text, tokens) } -> std::same_as<void>;
  { c.decode(numbers, bytes) } -> std::same_as<result<void>>;
};

/// Token n is byte n; 256, if asked for, is end of text. Thread-safe.
class byte_tokenizer {
 public:
  explicit byte_tokenizer(bool with_end_of_text = false) noexcept : with_end_{with_end_of_text} {}

  [[nodiscard]] std::int64_t vocabulary() const noexcept { return with_end_ ? 257 : 256; }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept {
    return with_end_ ? std::optional<std::int32_t>{256} : std::nullopt;
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_text("bytes", with_end_ ? 1 : 0); }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const {
    out.reserve(out.size() + text.size());
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }

  result<void> decode(std::span<const std::int32_t> tokens, std::string& out) const {
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        return fail(errc::invalid_argument, "token " + std::to_string(token),
                    "outside the vocabulary of " + std::to_string(vocabulary()) + ". Use the tokenizer that made it");
      }
      if (token < 256) out += static_cast<char>(token);
    }
    return {};
  }

 private:
  bool with_end_;
};

static_assert(Tokenizer<byte_tokenizer>);

/// All documents as one stream, each followed by end of text where the tokenizer has it.
template <Tokenizer T>
token_stream tokenize(T& tokenizer, std::span<const document> documents) {
  std::vector<std::int32_t> tokens;
  for (const document& d : documents) {
    tokenizer.encode(d.text, tokens);
    if (const auto end = tokenizer.end_of_text()) tokens.push_back(*end);
  }
  return token_stream{tokens};
}

template <Tokenizer T>
token_stream tokenize(T& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  tokenizer.encode(text, tokens);
  return token_stream{tokens};
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_TOKENIZER_HPP

// ---- causeway/data/bpe_tokenizer.hpp ----
#ifndef CAUSEWAY_DATA_BPE_TOKENIZER_HPP
#define CAUSEWAY_DATA_BPE_TOKENIZER_HPP

// Byte-level byte-pair encoding (Sennrich et al. 2016, on bytes as in GPT-2): tokens 0..255 are the bytes, token 256+i is
// the pair that merge i joins. Any bytes can be encoded and come back exactly. Trained by data/bpe_trainer.hpp.

#include <limits>
#include <unordered_map>

namespace causeway::inline CAUSEWAY_ABI::data {

/// Joins token `left` and the token `right` after it.
struct bpe_merge {
  std::int32_t left = 0;
  std::int32_t right = 0;

  friend constexpr bool operator==(const bpe_merge&, const bpe_merge&) = default;
  friend constexpr auto operator<=>(const bpe_merge&, const bpe_merge&) = default;
};

/// Models Tokenizer. Keeps the tokens of words it has seen, so encoding changes it: one thread at a time, or a copy each.
class bpe_tokenizer {
 public:
  /// The 256 bytes only.
  bpe_tokenizer() : bytes_(256) {
    for (std::size_t i = 0; i < 256; ++i) bytes_[i] = std::string(1, static_cast<char>(i));
  }

  /// errc::corrupt if a merge joins tokens that do not exist yet, repeats an earlier one, or gives more than 64 bytes.
  static result<bpe_tokenizer> make(std::span<const bpe_merge> merges, bool with_end_of_text);

  [[nodiscard]] std::int64_t vocabulary() const noexcept {
    return static_cast<std::int64_t>(bytes_.size()) + (with_end_ ? 1 : 0);
  }
  /// The last token of the vocabulary.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const noexcept {
    return with_end_ ? std::optional<std::int32_t>{static_cast<std::int32_t>(bytes_.size())} : std::nullopt;
  }
  [[nodiscard]] std::span<const bpe_merge> merges() const noexcept { return merges_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_text(to_text()); }

  /// The bytes of a token that is not end of text.
  [[nodiscard]] std::string_view token_bytes(std::int32_t token) const { return bytes_[static_cast<std::size_t>(token)]; }

  /// Pieces seen before cost one look-up; a new piece of n bytes costs O(n²), with n at most 64.
  void encode(std::string_view text, std::vector<std::int32_t>& out) {
    for_each_piece(text, [&](std::string_view piece) {
      auto known = cache_.find(piece);
      if (known == cache_.end()) {
        if (cache_.size() >= most_cached) cache_.clear();
        known = cache_.emplace(std::string{piece}, merged(piece)).first;
      }
      out.insert(out.end(), known->second.begin(), known->second.end());
    });
  }

  result<void> decode(std::span<const std::int32_t> tokens, std::string& out) const {
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        return fail(errc::invalid_argument, "token " + std::to_string(token),
                    "outside the vocabulary of " + std::to_string(vocabulary()) + ". Use the tokenizer that made it");
      }
      if (token != end_of_text()) out += bytes_[static_cast<std::size_t>(token)];
    }
    return {};
  }

  /// The tokenizer as lines of ASCII text, the last one a checksum.
  [[nodiscard]] std::string to_text() const;
  /// The inverse; `name` is for messages. Errors: errc::corrupt, errc::version_mismatch.
  static result<bpe_tokenizer> from_text(std::string_view text, const std::string& name);

  template <io::Storage S>
  result<void> save(S& storage, const std::string& path) const {
    const std::string text = to_text();
    return storage.write_atomic(path, io::produce(text));
  }
  template <io::Storage S>
  static result<bpe_tokenizer> load(S& storage, const std::string& path) {
    CAUSEWAY_ASSIGN(const io::byte_vector content, storage.read(path));
    return from_text({reinterpret_cast<const char*>(content.data()), content.size()}, path);
  }

 private:
  static constexpr std::size_t most_cached = std::size_t{1} << 17U;  // some 15 MB; text has fewer common words

  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
  };

  static constexpr std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
    return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
  }

  [[nodiscard]] std::vector<std::int32_t> merged(std::string_view piece) const;

  std::vector<std::string> bytes_;
  std::vector<bpe_merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> joined_;  // pair -> its token; looked up only, never walked through
  bool with_end_ = false;
  std::unordered_map<std::string, std::vector<std::int32_t>, text_hash, std::equal_to<>> cache_;
};

static_assert(Tokenizer<bpe_tokenizer>);

inline result<bpe_tokenizer> bpe_tokenizer::make(std::span<const bpe_merge> merges, bool with_end_of_text) {
  bpe_tokenizer made;
  made.with_end_ = with_end_of_text;
  for (const bpe_merge& m : merges) {
    const auto next = static_cast<std::int32_t>(made.bytes_.size());
    const auto bad = [&](const char* why) {
      return fail(errc::corrupt, "merge " + std::to_string(next - 256), std::string{why} + ". Train the tokenizer again");
    };
    if (m.left < 0 || m.right < 0 || m.left >= next || m.right >= next) return bad("joins a token that does not exist yet");
    std::string joined{made.token_bytes(m.left)};
    joined += made.token_bytes(m.right);
    if (joined.size() > longest_piece) return bad("makes a token longer than any piece of text");
    if (!made.joined_.emplace(key_of(m.left, m.right), next).second) return bad("repeats an earlier one");
    made.bytes_.push_back(std::move(joined));
    made.merges_.push_back(m);
  }
  return made;
}

/// Applies the earliest possible merge until there is none: all its places, from the left.
inline std::vector<std::int32_t> bpe_tokenizer::merged(std::string_view piece) const {
  std::vector<std::int32_t> tokens;
  for (const char c : piece) tokens.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::int32_t best = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = joined_.find(key_of(tokens[i], tokens[i + 1]));
      if (found != joined_.end() && found->second < best) best = found->second;
    }
    if (best == std::numeric_limits<std::int32_t>::max()) return tokens;
    const bpe_merge merge = merges_[static_cast<std::size_t>(best) - 256];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++kept) {
      const bool here = i + 1 < tokens.size() && tokens[i] == merge.left && tokens[i + 1] == merge.right;
      tokens[kept] = here ? best : tokens[i];
      i += here ? 2 : 1;
    }
    tokens.resize(kept);
  }
}

namespace detail {

/// Takes lines and words off the front of a text.
class word_reader {
 public:
  explicit word_reader(std::string_view text) noexcept : rest_{text} {}

  /// True if the next characters are `wanted`.
  bool skip(std::string_view wanted) noexcept {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  template <class T>
  bool number(T& value, int base = 10) noexcept {
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (failure != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view rest_;
};

inline std::string checksum_line(std::string_view body) {
  std::array<char, 17> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + 16, hash_text(body), 16).ptr;
  return "checksum " + std::string(digits.data(), end) + "\n";
}

}  // namespace detail

inline std::string bpe_tokenizer::to_text() const {
  std::string text = "causeway-bpe 1\nend_of_text " + std::to_string(with_end_ ? 1 : 0) + "\nmerges " +
                     std::to_string(merges_.size()) + "\n";
  for (const bpe_merge& m : merges_) text += std::to_string(m.left) + ' ' + std::to_string(m.right) + '\n';
  return text + detail::checksum_line(text);
}

inline result<bpe_tokenizer> bpe_tokenizer::from_text(std::string_view text, const std::string& name) {
  const auto corrupt = [&](const std::string& what) {
    return fail(errc::corrupt, name, what + ". Fetch the tokenizer file again, or train it again");
  };
  detail::word_reader reader{text};
  std::uint32_t format = 0;
  if (!reader.skip("causeway-bpe ") || !reader.number(format)) return corrupt("this is not a tokenizer file");
  const std::size_t last = text.rfind("checksum ");
  if (last == std::string_view::npos || text.substr(last) != detail::checksum_line(text.substr(0, last))) {
    return corrupt("the file was cut or changed: it does not fit its checksum");
  }
  if (format != 1) {
    return fail(errc::version_mismatch, name,
                "tokenizer format " + std::to_string(format) + "; this program reads format 1. Use a newer library");
  }
  std::uint32_t with_end = 0;
  std::size_t count = 0;
  bool sound = reader.skip("\nend_of_text ") && reader.number(with_end) && with_end <= 1 && reader.skip("\nmerges ") &&
               reader.number(count) && reader.skip("\n");
  std::vector<bpe_merge> merges;
  for (bpe_merge m; sound && merges.size() < count; merges.push_back(m)) {
    sound = reader.number(m.left) && reader.skip(" ") && reader.number(m.right) && reader.skip("\n");
  }
  if (!sound || reader.left() != text.size() - last) return corrupt("the lines do not make sense");
  auto made = make(merges, with_end == 1);
  if (!made) made.error().where = name + ", " + made.error().where;
  return made;
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_BPE_TOKENIZER_HPP

// ---- causeway/data/bpe_trainer.hpp ----
#ifndef CAUSEWAY_DATA_BPE_TRAINER_HPP
#define CAUSEWAY_DATA_BPE_TRAINER_HPP

// Learns byte-pair merges from text: again and again joins the most frequent pair of neighbours. Works on the different
// pieces of the text with their counts, and updates only the pairs of pieces that a merge touches. The merges are a
// function of the counts alone: equally frequent pairs go in the order of their numbers (left, then right).

#include <queue>

namespace causeway::inline CAUSEWAY_ABI::data {

struct bpe_options {
  std::size_t merges = 1024;       ///< at most; fewer if the text runs out of repeated pairs
  std::int64_t minimum_count = 2;  ///< a pair that is rarer is not joined
  bool end_of_text = true;         ///< adds that token after the merges
};

/// Counts the pieces of one text after another, then trains. Memory: the different pieces and their places in pairs.
class bpe_trainer {
 public:
  explicit bpe_trainer(const bpe_options& options = {}) : options_{options} {}

  void add(std::string_view text) {
    for_each_piece(text, [&](std::string_view piece) {
      const auto known = counts_.find(piece);
      if (known != counts_.end()) {
        ++known->second;
      } else {
        counts_.emplace(std::string{piece}, 1);
      }
    });
  }

  /// Learns from all texts added. errc::bad_text if there was none.
  result<bpe_tokenizer> train();

 private:
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
  };

  struct word {
    std::vector<std::int32_t> tokens;
    std::int64_t count = 0;
  };

  struct pair_hash {
    std::size_t operator()(const bpe_merge& m) const noexcept {
      return static_cast<std::size_t>(
          causeway::detail::scramble((static_cast<std::uint64_t>(m.left) << 32U) ^ static_cast<std::uint32_t>(m.right)));
    }
  };

  struct pair_state {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // where the pair is or was; the same word may stand here twice
  };

  /// A pair and the count it had when it was put into the queue.
  struct candidate {
    std::int64_t count = 0;
    bpe_merge pair;
    friend bool operator<(const candidate& a, const candidate& b) noexcept {
      return a.count != b.count ? a.count < b.count : b.pair < a.pair;
    }
  };

  void prepare();
  void change_counts(std::uint32_t index, std::int64_t sign, std::int32_t newest);
  void apply(const bpe_merge& pair, std::int32_t token);

  bpe_options options_;
  std::unordered_map<std::string, std::int64_t, text_hash, std::equal_to<>> counts_;
  std::vector<word> words_;
  std::unordered_map<bpe_merge, pair_state, pair_hash> pairs_;
  std::priority_queue<candidate> queue_;
};

inline result<bpe_tokenizer> bpe_trainer::train() {
  if (counts_.empty()) return fail(errc::bad_text, "tokenizer", "there is no text to train on. Add some");
  prepare();
  std::vector<bpe_merge> merges;
  while (merges.size() < options_.merges && !queue_.empty()) {
    candidate top = queue_.top();
    queue_.pop();
    const std::int64_t now = pairs_[top.pair].count;
    if (now < options_.minimum_count || now == 0) continue;
    if (now != top.count) {  // other merges took some of its places since
      queue_.push({now, top.pair});
      continue;
    }
    apply(top.pair, static_cast<std::int32_t>(256 + merges.size()));
    merges.push_back(top.pair);
  }
  return bpe_tokenizer::make(merges, options_.end_of_text);
}

/// One word per different piece, and the counts of all pairs.
inline void bpe_trainer::prepare() {
  words_.clear();
  pairs_.clear();
  queue_ = {};
  words_.reserve(counts_.size());
  // The map's order does not matter: only sums over all words are used.
  for (const auto& [text, count] : counts_) {
    word w{.tokens = {}, .count = count};
    for (const char c : text) w.tokens.push_back(static_cast<unsigned char>(c));
    words_.push_back(std::move(w));
  }
  for (std::uint32_t i = 0; i < words_.size(); ++i) change_counts(i, 1, 0);
  for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
}

/// Adds (sign 1) or takes away (sign -1) the pairs of one word; lists the word with its pairs that hold `newest` or above.
inline void bpe_trainer::change_counts(std::uint32_t index, std::int64_t sign, std::int32_t newest) {
  const word& w = words_[index];
  for (std::size_t i = 0; i + 1 < w.tokens.size(); ++i) {
    const bpe_merge pair{w.tokens[i], w.tokens[i + 1]};
    pair_state& state = pairs_[pair];
    state.count += sign * w.count;
    // A word stays listed with a pair for good, so only pairs with the newest token can lack it.
    const bool listed = std::max(pair.left, pair.right) < newest || (!state.words.empty() && state.words.back() == index);
    if (sign > 0 && !listed) state.words.push_back(index);
  }
}

/// Joins `pair` into `token` in every word that has it.
inline void bpe_trainer::apply(const bpe_merge& pair, std::int32_t token) {
  std::vector<std::uint32_t> touched = std::move(pairs_[pair].words);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  std::vector<bpe_merge> grown;
  for (const std::uint32_t index : touched) {
    std::vector<std::int32_t>& tokens = words_[index].tokens;
    change_counts(index, -1, token);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++kept) {
      const bool here = i + 1 < tokens.size() && tokens[i] == pair.left && tokens[i + 1] == pair.right;
      tokens[kept] = here ? token : tokens[i];
      i += here ? 2 : 1;
    }
    tokens.resize(kept);
    change_counts(index, 1, token);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] == token || tokens[i + 1] == token) grown.push_back({tokens[i], tokens[i + 1]});
    }
  }
  // Only pairs with the new token can have become more frequent; the queue finds out about the others when they come up.
  std::sort(grown.begin(), grown.end());
  grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
  for (const bpe_merge& p : grown) queue_.push({pairs_[p].count, p});
  pairs_.erase(pair);
}

/// Trains on one text.
inline result<bpe_tokenizer> train_bpe(std::string_view text, const bpe_options& options = {}) {
  bpe_trainer trainer{options};
  trainer.add(text);
  return trainer.train();
}

/// Trains on documents.
inline result<bpe_tokenizer> train_bpe(std::span<const document> documents, const bpe_options& options = {}) {
  bpe_trainer trainer{options};
  for (const document& d : documents) trainer.add(d.text);
  return trainer.train();
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_BPE_TRAINER_HPP

// ---- causeway/data/token_shard.hpp ----
#ifndef CAUSEWAY_DATA_TOKEN_SHARD_HPP
#define CAUSEWAY_DATA_TOKEN_SHARD_HPP

// The `.bin` token files of llm.c: a header of 256 int32 (magic, version, number of tokens, zeros), then the tokens, all
// little-endian. Two kinds: 20240520 version 1 with uint16 (GPT-2) and 20240801 version 7 with uint32 (Llama 3). Read
// through a memory map: opening a shard of any size costs nothing. See docs/reference/token_shards.md.

namespace causeway::inline CAUSEWAY_ABI::data {

namespace detail {

struct shard_kind {
  std::int32_t magic;
  std::int32_t version;
  token_width width;
};

constexpr std::array<shard_kind, 2> shard_kinds{{{20240520, 1, token_width::two}, {20240801, 7, token_width::four}}};
constexpr std::size_t shard_header_bytes = 256 * sizeof(std::int32_t);

using shard_header = std::array<std::int32_t, 256>;

/// The kind of shard, once header and file size fit each other.
inline result<shard_kind> checked_shard(const shard_header& header, std::size_t file_bytes, const std::string& path) {
  const auto kind =
      std::find_if(shard_kinds.begin(), shard_kinds.end(), [&](const shard_kind& k) { return k.magic == header[0]; });
  if (kind == shard_kinds.end()) {
    return fail(errc::corrupt, path,
                "this is not a token shard: it starts with " + std::to_string(header[0]) +
                    ", not 20240520 or 20240801. Make shards with llm.c's data scripts or with write_token_shard");
  }
  if (kind->version != header[1]) {
    return fail(errc::version_mismatch, path,
                "token shard version " + std::to_string(header[1]) + "; version " + std::to_string(kind->version) +
                    " is known for magic " + std::to_string(kind->magic) + ". Make the shard again");
  }
  const std::size_t held = (file_bytes - shard_header_bytes) / static_cast<std::size_t>(kind->width);
  const std::size_t rest = (file_bytes - shard_header_bytes) % static_cast<std::size_t>(kind->width);
  if (header[2] < 0 || held != static_cast<std::size_t>(header[2]) || rest != 0) {
    return fail(errc::corrupt, path,
                "the header promises " + std::to_string(header[2]) + " tokens, the file holds " + std::to_string(held) +
                    (rest != 0 ? " and a part of one" : "") + ". Copy or make the shard again");
  }
  return *kind;
}

/// Tokens as numbers of type T, in parts so that a large stream needs little memory.
template <class T>
result<void> write_tokens(const token_stream& tokens, const io::byte_sink& sink) {
  constexpr std::int64_t part = std::int64_t{1} << 16U;
  std::vector<std::int32_t> wide;
  std::vector<T> stored;
  for (std::int64_t at = 0; at < tokens.size(); at += part) {
    wide.resize(static_cast<std::size_t>(std::min(part, tokens.size() - at)));
    tokens.read(at, wide);
    stored.clear();
    for (const std::int32_t token : wide) {
      if (token < 0 || static_cast<std::uint32_t>(token) > std::numeric_limits<T>::max()) {
        return fail(errc::invalid_argument, "token " + std::to_string(token),
                    "does not fit into " + std::to_string(sizeof(T)) + " bytes. Write the shard with four bytes per token");
      }
      stored.push_back(static_cast<T>(token));
    }
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{stored})));
  }
  return {};
}

}  // namespace detail

/// Maps the shard at `path`. Errors: errc::not_found, errc::corrupt (magic, size), errc::version_mismatch. The tokens
/// themselves are not read: `token_stream::check_vocabulary` does that.
inline result<token_stream> open_token_shard(const std::string& path) {
  CAUSEWAY_ASSIGN(io::mapped_file file, io::mapped_file::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  detail::shard_header header{};
  if (bytes.size() < sizeof header) {
    return fail(errc::corrupt, path, "too short for a token shard: the header alone has 1,024 bytes");
  }
  std::memcpy(header.data(), bytes.data(), sizeof header);
  CAUSEWAY_ASSIGN(const detail::shard_kind kind, detail::checked_shard(header, bytes.size(), path));
  auto owner = std::make_shared<io::mapped_file>(std::move(file));
  const std::byte* first = owner->bytes().data() + detail::shard_header_bytes;
  return token_stream{std::move(owner), first, header[2], kind.width};
}

/// Writes a shard that `open_token_shard` and llm.c read. Errors: errc::invalid_argument (a token that does not fit),
/// errc::too_large (2³¹ tokens or more), and those of the storage.
template <io::Storage S>
result<void> write_token_shard(S& storage, const std::string& path, const token_stream& tokens, token_width width) {
  if (tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    return fail(errc::too_large, path, "a shard holds less than 2,147,483,648 tokens. Cut the stream into several shards");
  }
  const detail::shard_kind& kind = detail::shard_kinds[width == token_width::two ? 0 : 1];
  detail::shard_header header{kind.magic, kind.version, static_cast<std::int32_t>(tokens.size())};
  return storage.write_atomic(path, [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{header})));
    if (width == token_width::two) return detail::write_tokens<std::uint16_t>(tokens, sink);
    return detail::write_tokens<std::uint32_t>(tokens, sink);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::data

#endif  // CAUSEWAY_DATA_TOKEN_SHARD_HPP

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

// ---- causeway/kernels/backend.hpp ----
#ifndef CAUSEWAY_KERNELS_BACKEND_HPP
#define CAUSEWAY_KERNELS_BACKEND_HPP

// What every kernel call needs, in one place: threads, working memory and a matrix product. A model owns one backend.

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Threads, scratch memory and a matrix product of a processor. For one calling thread at a time.
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

 private:
  thread_pool pool_;
  scratch memory_;
  GemmType gemm_;
};

using cpu_backend = basic_cpu_backend<>;

/// What models ask of a backend on the host.
template <class B>
concept Backend = requires(B& backend, const B& constant) {
  { backend.pool() } -> std::same_as<thread_pool&>;
  { backend.memory() } -> std::same_as<scratch&>;
  requires Gemm<typename B::gemm_type>;
  { backend.gemm() } -> std::same_as<typename B::gemm_type&>;
  { constant.describe() } -> std::convertible_to<std::string>;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_BACKEND_HPP

// ---- causeway/kernels/cblas_gemm.hpp ----
#ifndef CAUSEWAY_KERNELS_CBLAS_GEMM_HPP
#define CAUSEWAY_KERNELS_CBLAS_GEMM_HPP

// Matrix products by any BLAS with the C interface. Empty unless causeway::blas is linked, which defines
// CAUSEWAY_HAS_CBLAS. The library's own threads are switched off where it says how (OpenBLAS and BLIS do): each thread of
// ours multiplies a part of C. A BLAS knows f32 alone, so bf16 operands are widened into scratch first.

#if defined(CAUSEWAY_HAS_CBLAS)

#include <cblas.h>

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// The product of the BLAS that is linked. One calling thread at a time. Sizes must fit its integers.
class cblas_gemm {
 public:
  static constexpr std::string_view name = "cblas";

  /// Sets the BLAS library to one thread, for the whole process.
  cblas_gemm() {
    using set_threads = void (*)(int);
    for (const char* function : {"openblas_set_num_threads", "bli_thread_set_num_threads", "MKL_Set_Num_Threads"}) {
      if (const auto set = detail::loaded_function<set_threads>(function); set != nullptr) set(1);
    }
  }

  template <class In, class Out>
  void multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments) {
    const gemm_args<In, Out> args = detail::checked(arguments);
    if (args.m == 0 || args.n == 0) return;
    auto frame = memory.open();
    sums what{.transpose_a = args.transpose_a, .transpose_b = args.transpose_b, .m = args.m, .n = args.n, .k = args.k};
    widen(pool, frame, args.a, args.transpose_a ? args.k : args.m, args.transpose_a ? args.m : args.k, args.lda, what.a,
          what.lda);
    widen(pool, frame, args.b, args.transpose_b ? args.n : args.k, args.transpose_b ? args.k : args.n, args.ldb, what.b,
          what.ldb);
    place(frame, args, what);
    const unsigned threads = args.m * args.n * args.k < 200'000 ? 1 : pool.size();
    const auto grid = detail::choose_grid(args.m, args.n, 16, threads);
    const auto share = [&](unsigned index) {
      if (index < grid.size()) part(args, what, grid, index);
    };
    if (grid.size() == 1) return share(0);
    pool.run(share);
  }

  [[nodiscard]] std::string describe() const {
    using get_config = char* (*)();
    const auto get = detail::loaded_function<get_config>("openblas_get_config");
    return get == nullptr ? std::string{"cblas"} : "cblas (" + std::string{get()} + ")";
  }

 private:
  /// sums = op(A) op(B), or sums +=, all f32.
  struct sums {
    bool transpose_a = false;
    bool transpose_b = false;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    const float* a = nullptr;
    std::int64_t lda = 0;
    const float* b = nullptr;
    std::int64_t ldb = 0;
    float* c = nullptr;
    std::int64_t ldc = 0;
    bool add = false;
    bool done = false;  ///< the sums are C already, and nothing is left to do with them
  };

  /// The operand itself, or an f32 copy without gaps.
  template <class In>
  static void widen(thread_pool& pool, scratch::frame& frame, const In* from, std::int64_t rows, std::int64_t columns,
                    std::int64_t ld, const float*& to, std::int64_t& ld_to) {
    if constexpr (std::is_same_v<In, float>) {
      static_cast<void>(pool), static_cast<void>(frame), static_cast<void>(rows), static_cast<void>(columns);
      to = from;
      ld_to = ld;
    } else {
      auto* copy = frame.template take<float>(static_cast<std::size_t>(rows * columns));
      if (ld == columns) {
        convert(pool, from, copy, rows * columns);
      } else {
        for (std::int64_t i = 0; i < rows; ++i) convert(pool, from + i * ld, copy + i * columns, columns);
      }
      to = copy;
      ld_to = columns;
    }
  }

  /// Sums go straight to C where C is f32 and nothing but an addition to C is asked for.
  template <class In, class Out>
  static void place(scratch::frame& frame, const gemm_args<In, Out>& args, sums& what) {
    if constexpr (std::is_same_v<Out, float>) {
      if (args.bias == nullptr && args.residual == nullptr && args.act == activation::none &&
          args.pre_activation == nullptr) {
        what.c = args.c;
        what.ldc = args.ldc;
        what.add = args.accumulate;
        what.done = true;
        return;
      }
    }
    what.c = frame.template take<float>(static_cast<std::size_t>(args.m * args.n));
    what.ldc = args.n;
  }

  /// One thread's part of C.
  template <class In, class Out>
  static void part(const gemm_args<In, Out>& args, const sums& what, detail::thread_grid grid, unsigned index) {
    const index_range rows = share_of(what.m, index / grid.columns, grid.rows);
    const index_range columns = share_of(what.n, index % grid.columns, grid.columns, 16);
    if (rows.size() <= 0 || columns.size() <= 0) return;
    const float* a = what.a + rows.begin * (what.transpose_a ? 1 : what.lda);
    const float* b = what.b + columns.begin * (what.transpose_b ? what.ldb : 1);
    float* c = what.c + rows.begin * what.ldc + columns.begin;
    const detail::one_openmp_thread here;  // an OpenMP flavour of OpenBLAS forgets its setting in threads it has not met
    const auto size = [](std::int64_t n) { return static_cast<int>(n); };
    cblas_sgemm(CblasRowMajor, what.transpose_a ? CblasTrans : CblasNoTrans, what.transpose_b ? CblasTrans : CblasNoTrans,
                size(rows.size()), size(columns.size()), size(what.k), 1.0F, a, size(what.lda), b, size(what.ldb),
                what.add ? 1.0F : 0.0F, c, size(what.ldc));
    if (what.done) return;
    const auto to = detail::finish_at(args, rows.begin, columns.begin);
    detail::dispatch<detail::finish_kernel>(detect_simd_level(), static_cast<const float*>(c), what.ldc, rows.size(),
                                            columns.size(), &to);
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_HAS_CBLAS

#endif  // CAUSEWAY_KERNELS_CBLAS_GEMM_HPP

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
/// dbias are always added to. Moves 12 bytes an element (In f32), 10 (bf16), and 4 more to accumulate.
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
        head_size_{head_size} {
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

 private:
  aligned_buffer<float> cosine_;
  aligned_buffer<float> sine_;
  std::int64_t positions_ = 0;
  std::int64_t head_size_ = 0;
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

// ---- causeway/autograd/variable.hpp ----
#ifndef CAUSEWAY_AUTOGRAD_VARIABLE_HPP
#define CAUSEWAY_AUTOGRAD_VARIABLE_HPP

// What ops take and give: activations (a value and the place of its gradient on the tape) and parameters (f32 values, the
// bf16 copy that products read in bf16 mode, and the f32 gradient that every backward adds to).

namespace causeway::inline CAUSEWAY_ABI::autograd {

/// Where a tape keeps the gradient of one activation.
using gradient_slot = std::uint32_t;
inline constexpr gradient_slot no_gradient = ~gradient_slot{0};

/// An activation. Cheap to copy; a copy shares value and gradient.
struct variable {
  tensor value;
  gradient_slot slot = no_gradient;

  [[nodiscard]] bool wants_gradient() const noexcept { return slot != no_gradient; }
};

/// A rows × columns parameter (a vector has one row). Weights of linear maps are stored [outputs, inputs].
struct parameter {
  const float* value = nullptr;
  const bf16* low = nullptr;  ///< the same in bf16; needed by products in bf16 mode only
  float* gradient = nullptr;  ///< added to, never overwritten
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] explicit operator bool() const noexcept { return value != nullptr; }

  /// The values in the type that a product with activations of type `T` reads.
  template <class T>
  [[nodiscard]] const T* data() const noexcept {
    if constexpr (std::is_same_v<T, bf16>) {
      CAUSEWAY_EXPECT(low != nullptr);
      return low;
    } else {
      return value;
    }
  }
};

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

namespace causeway::inline CAUSEWAY_ABI::autograd::detail {

/// Calls `f.operator()<T>()` with the element type of activations of dtype `t`: float or bf16.
template <class F>
decltype(auto) with_activation_type(dtype t, F&& f) {
  CAUSEWAY_EXPECT(t == dtype::f32 || t == dtype::bf16);
  return t == dtype::bf16 ? f.template operator()<bf16>() : f.template operator()<float>();
}

}  // namespace causeway::inline CAUSEWAY_ABI::autograd::detail

#endif  // CAUSEWAY_AUTOGRAD_VARIABLE_HPP

// ---- causeway/autograd/tape.hpp ----
#ifndef CAUSEWAY_AUTOGRAD_TAPE_HPP
#define CAUSEWAY_AUTOGRAD_TAPE_HPP

// An eager tape. Every op computes its value at once and pushes how to carry a gradient back; `backward` pops these in
// reverse. A node's saved activations go back to the pool as soon as it has run, and so does the gradient it consumed.
// The first contribution to a gradient overwrites, later ones add, so no gradient is ever filled with zeros. A steady
// training step allocates nothing: nodes live in a vector that keeps its capacity, tensors in a `buffer_pool`.

namespace causeway::inline CAUSEWAY_ABI::autograd {

namespace detail {

/// A movable `void(Tape&, tensor)` with its captures in place: no heap.
template <class Tape>
class backward_function {
 public:
  static constexpr std::size_t capacity = 640;

  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, backward_function>)
  explicit backward_function(F&& f) : operations_{&operations_of<std::remove_cvref_t<F>>} {
    using function = std::remove_cvref_t<F>;
    static_assert(sizeof(function) <= capacity && alignof(function) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<function>);
    ::new (static_cast<void*>(storage_)) function(std::forward<F>(f));
  }
  backward_function(backward_function&& other) noexcept : operations_{other.operations_} {
    operations_->move(storage_, other.storage_);
  }
  backward_function& operator=(backward_function&&) = delete;
  ~backward_function() { operations_->destroy(storage_); }

  void operator()(Tape& t, tensor gradient) { operations_->call(storage_, t, std::move(gradient)); }

 private:
  struct operations {
    void (*call)(void*, Tape&, tensor&&);
    void (*move)(void*, void*) noexcept;
    void (*destroy)(void*) noexcept;
  };

  template <class F>
  static constexpr operations operations_of = {
      [](void* f, Tape& t, tensor&& gradient) { (*static_cast<F*>(f))(t, std::move(gradient)); },
      [](void* to, void* from) noexcept { ::new (to) F(std::move(*static_cast<F*>(from))); },
      [](void* f) noexcept { std::destroy_at(static_cast<F*>(f)); }};

  const operations* operations_;
  alignas(std::max_align_t) std::byte storage_[capacity];
};

}  // namespace detail

/// Records one forward pass over `Backend` and runs it backwards. Holds references to the backend and the pool, which must
/// outlive it. One thread at a time.
template <class Backend>
class tape {
 public:
  tape(Backend& backend, buffer_pool& memory) noexcept : backend_{&backend}, memory_{&memory} {}

  [[nodiscard]] Backend& backend() noexcept { return *backend_; }
  [[nodiscard]] thread_pool& pool() noexcept { return backend_->pool(); }
  [[nodiscard]] scratch& work() noexcept { return backend_->memory(); }
  [[nodiscard]] buffer_pool& memory() noexcept { return *memory_; }

  /// Whether ops record. Switch off for inference: nothing is saved, no variable wants a gradient.
  [[nodiscard]] bool recording() const noexcept { return recording_; }
  void recording(bool on) noexcept { recording_ = on; }

  /// Memory for a result, not initialised.
  [[nodiscard]] tensor make(dtype type, tensor_shape shape) { return tensor::make(*memory_, type, shape); }

  /// The same numbers in memory that may be overwritten: `t` itself if nobody shares it, else a copy.
  [[nodiscard]] tensor exclusive(tensor t) {
    if (t.unique()) return t;
    tensor copy = make(t.type(), t.shape());
    std::memcpy(copy.raw(), t.raw(), t.bytes());
    return copy;
  }

  /// A variable that no op made: an input whose gradient is wanted.
  [[nodiscard]] variable leaf(tensor value) { return {std::move(value), recording_ ? new_slot() : no_gradient}; }

  /// The result of an op. `backward(tape&, tensor dy)` is called with the gradient of `value`, if there is one.
  template <class F>
  [[nodiscard]] variable result(tensor value, F&& backward) {
    if (!recording_) return {std::move(value), no_gradient};
    const gradient_slot slot = new_slot();
    nodes_.emplace_back(slot, std::forward<F>(backward));
    return {std::move(value), slot};
  }

  /// Where a kernel writes a gradient, and whether it must add to what is there.
  struct target {
    tensor memory;
    bool accumulate = false;
  };
  [[nodiscard]] target target_of(gradient_slot slot, dtype type, tensor_shape shape) {
    if (slot == no_gradient) return {make(type, shape), false};  // nobody will read it
    tensor& gradient = slots_[slot];
    const bool accumulate = static_cast<bool>(gradient);
    gradient = accumulate ? exclusive(std::move(gradient)) : make(type, shape);
    return {gradient, accumulate};
  }

  /// Gives `gradient` to `slot`: the buffer itself when it is the first, else added to what is there.
  void contribute(gradient_slot slot, tensor gradient) {
    if (slot == no_gradient) return;
    if (!slots_[slot]) {
      slots_[slot] = std::move(gradient);
      return;
    }
    slots_[slot] = exclusive(std::move(slots_[slot]));
    add_to(slots_[slot], gradient);
  }

  /// Takes the gradient that has arrived at a variable; empty when none has.
  [[nodiscard]] tensor take(gradient_slot slot) noexcept {
    return slot == no_gradient ? tensor{} : std::exchange(slots_[slot], tensor{});
  }

  /// How much was recorded so far; `backward_to` and `release_to` come back to it.
  struct mark {
    std::size_t nodes = 0;
    std::size_t slots = 0;
  };
  [[nodiscard]] mark position() const noexcept { return {nodes_.size(), slots_.size()}; }

  /// Runs what was recorded after `m`, last first. Give the result its gradient with `contribute` before.
  void backward_to(mark m) {
    const bool was_recording = std::exchange(recording_, false);
    while (nodes_.size() > m.nodes) {
      node last = std::move(nodes_.back());  // moved out: a node may record and run others (recomputation)
      nodes_.pop_back();
      if (tensor gradient = take(last.slot)) last.backward(*this, std::move(gradient));
    }
    recording_ = was_recording;
  }
  void backward() { backward_to({}); }

  /// Forgets the gradients of variables made after `m`.
  void release_to(mark m) noexcept { slots_.resize(m.slots); }

  /// Forgets everything recorded and gives its memory back.
  void clear() noexcept {
    nodes_.clear();
    slots_.clear();
    recording_ = true;
  }

 private:
  struct node {
    template <class F>
    node(gradient_slot s, F&& f) : slot{s}, backward{std::forward<F>(f)} {}
    gradient_slot slot;
    detail::backward_function<tape> backward;
  };

  [[nodiscard]] gradient_slot new_slot() {
    slots_.emplace_back();
    return static_cast<gradient_slot>(slots_.size() - 1);
  }

  void add_to(tensor& sum, const tensor& term) {
    CAUSEWAY_EXPECT(sum.shape() == term.shape() && sum.type() == term.type());
    detail::with_activation_type(
        sum.type(), [&]<class T>() { kernels::add(pool(), sum.data<T>(), sum.data<T>(), term.data<T>(), sum.count()); });
  }

  Backend* backend_;
  buffer_pool* memory_;
  std::vector<node> nodes_;
  std::vector<tensor> slots_;
  bool recording_ = true;
};

/// Switches recording for the length of a scope.
template <class Backend>
class recording_scope {
 public:
  recording_scope(tape<Backend>& t, bool on) noexcept : tape_{t}, before_{t.recording()} { t.recording(on); }
  recording_scope(const recording_scope&) = delete;
  recording_scope& operator=(const recording_scope&) = delete;
  ~recording_scope() { tape_.recording(before_); }

 private:
  tape<Backend>& tape_;
  bool before_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_TAPE_HPP

// ---- causeway/autograd/checkpoint.hpp ----
#ifndef CAUSEWAY_AUTOGRAD_CHECKPOINT_HPP
#define CAUSEWAY_AUTOGRAD_CHECKPOINT_HPP

// Recomputation (Chen et al. 2016): a part of a model keeps only its input and is computed again when its gradient is
// wanted. Costs one more forward of that part; a row of L equal blocks keeps L inputs and one block's activations.

namespace causeway::inline CAUSEWAY_ABI::autograd {

/// Runs `block(tape, x) -> variable` without keeping anything but x, and again in the backward pass, this time recording.
/// The block must compute the same both times: its randomness a function of numbers it captured, its parameters unchanged.
template <class Backend, class Block>
[[nodiscard]] variable checkpoint(tape<Backend>& t, const variable& x, Block block) {
  if (!t.recording()) return block(t, x);
  variable y;
  {
    const recording_scope off{t, false};
    y = block(t, x);
  }
  return t.result(std::move(y.value), [x, block](tape<Backend>& on, tensor dy) {
    const auto begin = on.position();
    const recording_scope scope{on, true};
    const variable input = on.leaf(x.value);
    const gradient_slot output = block(on, input).slot;
    on.contribute(output, std::move(dy));
    on.backward_to(begin);
    on.contribute(x.slot, on.take(input.slot));
    on.release_to(begin);
  });
}

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_CHECKPOINT_HPP

// ---- causeway/autograd/grad_check.hpp ----
#ifndef CAUSEWAY_AUTOGRAD_GRAD_CHECK_HPP
#define CAUSEWAY_AUTOGRAD_GRAD_CHECK_HPP

// Gradients against finite differences. One direction at a time, all elements moved at once: the derivative along a random
// direction is wrong as soon as any element of the gradient is. Central differences at two step sizes, extrapolated
// (Richardson), with the loss and all sums in double, leave about four correct digits of an f32 computation.

namespace causeway::inline CAUSEWAY_ABI::autograd {

struct grad_check_options {
  float step = 0.03F;  ///< how far each element is moved, up and down
  int directions = 4;  ///< along the gradient's signs, then random ones
  std::uint64_t seed = 1;
};

namespace detail {

/// (f(x + s·v) − f(x − s·v)) / 2s, and the derivative that `gradient` predicts for the step really made in f32.
struct difference {
  double measured = 0.0;
  double predicted = 0.0;
};

template <class Loss>
difference central_difference(std::span<float> values, std::span<const float> gradient, std::span<const float> direction,
                              float step, Loss& loss) {
  const std::vector<float> saved(values.begin(), values.end());
  const auto move = [&](float by) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = saved[i] + by * direction[i];
    return static_cast<double>(loss());
  };
  difference d;
  d.measured = (move(step) - move(-step)) / (2.0 * static_cast<double>(step));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double up = static_cast<double>(saved[i] + step * direction[i]);
    const double down = static_cast<double>(saved[i] - step * direction[i]);
    d.predicted += static_cast<double>(gradient[i]) * (up - down) / (2.0 * static_cast<double>(step));
  }
  std::copy(saved.begin(), saved.end(), values.begin());
  return d;
}

}  // namespace detail

/// The worst error of `gradient`, relative to its length, as the gradient of `loss()` with respect to `values`. `loss`
/// computes from the present contents of `values`, which are moved and put back. A correct f32 rule stays below 1e-3;
/// infinity when something is not finite. Cost: 4 · directions evaluations.
template <std::invocable Loss>
[[nodiscard]] double grad_check(std::span<float> values, std::span<const float> gradient, Loss&& loss,
                                grad_check_options options = {}) {
  CAUSEWAY_EXPECT(values.size() == gradient.size());
  double norm = 0.0;
  for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
  norm = std::sqrt(norm);
  rng random{options.seed};
  std::vector<float> direction(values.size());
  double worst = 0.0;
  for (int n = 0; n < options.directions; ++n) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool up = n == 0 ? gradient[i] >= 0.0F : random.uniform() < 0.5F;
      direction[i] = up ? 1.0F : -1.0F;
    }
    const auto wide = detail::central_difference(values, gradient, direction, options.step, loss);
    const auto narrow = detail::central_difference(values, gradient, direction, options.step / 2, loss);
    const double measured = (4.0 * narrow.measured - wide.measured) / 3.0;
    const double predicted = (4.0 * narrow.predicted - wide.predicted) / 3.0;
    const double error = std::abs(measured - predicted) / std::max({norm, std::abs(measured), 1e-30});
    worst = std::isfinite(error) ? std::max(worst, error) : HUGE_VAL;
  }
  return worst;
}

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_GRAD_CHECK_HPP

// ---- causeway/autograd/linear.hpp ----
#ifndef CAUSEWAY_AUTOGRAD_LINEAR_HPP
#define CAUSEWAY_AUTOGRAD_LINEAR_HPP

// Linear maps, alone or with what surrounds them in a transformer block fused into the product: GELU after the first
// matrix of the feed-forward part, the residual addition after the last. Operands are f32, or bf16 with f32 sums.

namespace causeway::inline CAUSEWAY_ABI::autograd {

namespace detail {

/// What a linear map keeps for its backward.
struct linear_record {
  tensor x;               ///< [rows, inputs]
  tensor pre_activation;  ///< [rows, outputs] when GELU follows
  gradient_slot x_slot = no_gradient;
  gradient_slot residual_slot = no_gradient;
  parameter weight;  ///< [outputs, inputs]
  parameter bias;    ///< [1, outputs] or nothing
};

template <class In, class Out, class Backend>
void linear_forward(tape<Backend>& t, const linear_record& r, kernels::activation act, const tensor& residual, tensor& y) {
  kernels::gemm_args<In, Out> args;
  args.transpose_b = true;
  args.m = r.x.rows(), args.n = r.weight.rows, args.k = r.weight.columns;
  args.a = r.x.template data<In>(), args.lda = args.k;
  args.b = r.weight.template data<In>(), args.ldb = args.k;
  args.c = y.template data<Out>(), args.ldc = args.n;
  args.bias = r.bias.value;
  args.act = act;
  if (residual) args.residual = residual.data<float>(), args.ld_residual = args.n;
  if (r.pre_activation) args.pre_activation = r.pre_activation.template data<Out>();
  t.backend().gemm().multiply(t.pool(), t.work(), args);
}

/// dW += dyᵀ·x.
template <class Act, class Backend>
void linear_weight_gradient(tape<Backend>& t, const linear_record& r, const tensor& dy) {
  kernels::gemm_args<Act, float> args;
  args.transpose_a = true;
  args.accumulate = true;
  args.m = r.weight.rows, args.n = r.weight.columns, args.k = r.x.rows();
  args.a = dy.template data<Act>(), args.lda = args.m;
  args.b = r.x.template data<Act>(), args.ldb = args.n;
  args.c = r.weight.gradient, args.ldc = args.n;
  t.backend().gemm().multiply(t.pool(), t.work(), args);
}

/// dx = dy·W.
template <class Act, class Backend>
void linear_input_gradient(tape<Backend>& t, const linear_record& r, const tensor& dy) {
  if (r.x_slot == no_gradient) return;
  auto dx = t.target_of(r.x_slot, dtype_of<Act>, {dy.rows(), r.weight.columns});
  kernels::gemm_args<Act, Act> args;
  args.accumulate = dx.accumulate;
  args.m = dy.rows(), args.n = r.weight.columns, args.k = r.weight.rows;
  args.a = dy.template data<Act>(), args.lda = args.k;
  args.b = r.weight.template data<Act>(), args.ldb = args.n;
  args.c = dx.memory.template data<Act>(), args.ldc = args.n;
  t.backend().gemm().multiply(t.pool(), t.work(), args);
}

/// The gradient as the products read it: itself, or rounded to bf16 when it arrived from the f32 residual stream.
template <class Backend>
[[nodiscard]] tensor as_operand(tape<Backend>& t, const tensor& dy, dtype type) {
  if (dy.type() == type) return dy;
  tensor rounded = t.make(type, dy.shape());
  kernels::convert(t.pool(), dy.data<float>(), rounded.data<bf16>(), dy.count());
  return rounded;
}

/// y = act(x·Wᵀ + b) + residual: through the activation, then db += Σ dy, dW += dyᵀ·x, dx = dy·W, d residual = dy.
template <class Act, class Backend>
void linear_backward(tape<Backend>& t, linear_record& r, tensor dy) {
  if (r.pre_activation) {
    dy = t.exclusive(std::move(dy));
    const Act* pre = r.pre_activation.template data<Act>();
    kernels::gelu_backward(t.pool(), pre, dy.template data<Act>(), dy.template data<Act>(), dy.count());
    r.pre_activation.reset();
  }
  if (r.bias) {
    with_activation_type(dy.type(), [&]<class T>() {
      kernels::bias_gradient(t.pool(), t.work(), dy.data<T>(), r.bias.gradient, dy.rows(), dy.columns());
    });
  }
  const tensor operand = as_operand(t, dy, dtype_of<Act>);
  linear_weight_gradient<Act>(t, r, operand);
  r.x.reset();  // before dx asks for memory of the same size
  if (r.residual_slot != no_gradient) t.contribute(r.residual_slot, std::move(dy));
  linear_input_gradient<Act>(t, r, operand);
}

template <class Backend>
[[nodiscard]] variable record_linear(tape<Backend>& t, linear_record&& r, tensor&& y) {
  return t.result(std::move(y), [r = std::move(r)](tape<Backend>& on, tensor dy) mutable {
    with_activation_type(r.x.type(), [&]<class Act>() { linear_backward<Act>(on, r, std::move(dy)); });
  });
}

}  // namespace detail

/// y = x·Wᵀ + b in the type of x. x is [rows, inputs], W [outputs, inputs], b [outputs] or an empty parameter.
template <class Backend>
[[nodiscard]] variable linear(tape<Backend>& t, const variable& x, const parameter& weight, const parameter& bias = {}) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  detail::linear_record r{x.value, {}, x.slot, no_gradient, weight, bias};
  tensor y = t.make(x.value.type(), {x.value.rows(), weight.rows});
  detail::with_activation_type(
      x.value.type(), [&]<class Act>() { detail::linear_forward<Act, Act>(t, r, kernels::activation::none, {}, y); });
  return detail::record_linear(t, std::move(r), std::move(y));
}

/// y = gelu(x·Wᵀ + b), the tanh form, in the type of x. Keeps the argument of gelu for backward.
template <class Backend>
[[nodiscard]] variable linear_gelu(tape<Backend>& t, const variable& x, const parameter& weight, const parameter& bias) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  detail::linear_record r{x.value, {}, x.slot, no_gradient, weight, bias};
  const tensor_shape shape{x.value.rows(), weight.rows};
  if (t.recording()) r.pre_activation = t.make(x.value.type(), shape);
  tensor y = t.make(x.value.type(), shape);
  detail::with_activation_type(
      x.value.type(), [&]<class Act>() { detail::linear_forward<Act, Act>(t, r, kernels::activation::gelu, {}, y); });
  return detail::record_linear(t, std::move(r), std::move(y));
}

/// y = x·Wᵀ + b in f32, whatever the type of x: what goes into the residual stream.
template <class Backend>
[[nodiscard]] variable linear_to_residual(tape<Backend>& t, const variable& x, const parameter& weight,
                                          const parameter& bias = {}, const variable& residual = {}) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  CAUSEWAY_EXPECT(!residual.value || residual.value.columns() == weight.rows);
  detail::linear_record r{x.value, {}, x.slot, residual.slot, weight, bias};
  tensor y = t.make(dtype::f32, {x.value.rows(), weight.rows});
  detail::with_activation_type(x.value.type(), [&]<class Act>() {
    detail::linear_forward<Act, float>(t, r, kernels::activation::none, residual.value, y);
  });
  return detail::record_linear(t, std::move(r), std::move(y));
}

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_LINEAR_HPP

// ---- causeway/autograd/ops.hpp ----
#ifndef CAUSEWAY_AUTOGRAD_OPS_HPP
#define CAUSEWAY_AUTOGRAD_OPS_HPP

// The coarse ops of a transformer other than linear maps: each computes its value and says, next to it, how its gradient
// goes back. Activations are [rows, columns] with rows = batch × T; norms and the residual stream are f32, the rest is f32
// or bf16 (`out` chooses where an op changes the type).

namespace causeway::inline CAUSEWAY_ABI::autograd {

/// x[b·T + t] = tokens_table[token] + positions[t]. dTokens[token] += dx, dPositions[t] += dx. `positions` may be empty.
/// The result is [batch·T, columns] in f32; tokens must lie in [0, table.rows).
template <class Backend>
[[nodiscard]] variable embedding(tape<Backend>& t, std::span<const std::int32_t> tokens, const parameter& table,
                                 const parameter& positions, std::int64_t batch) {
  const std::int64_t T = static_cast<std::int64_t>(tokens.size()) / batch;
  tensor x = t.make(dtype::f32, {batch * T, table.columns});
  kernels::embedding_forward(t.pool(), tokens.data(), table.value, positions.value, x.data<float>(), batch, T,
                             table.columns);
  tensor kept;
  if (t.recording()) {
    kept = t.make(dtype::i32, {batch * T});
    std::memcpy(kept.raw(), tokens.data(), kept.bytes());
  }
  return t.result(std::move(x), [kept = std::move(kept), table, positions, batch, T](tape<Backend>& on, const tensor& dx) {
    kernels::embedding_backward(on.pool(), on.work(), kept.data<std::int32_t>(), dx.data<float>(), table.gradient,
                                positions.gradient, batch, T, table.columns, table.rows);
  });
}

/// y = gain·(x − mean)/σ + bias over each row (Ba et al. 2016). dx = rstd·(g − ⟨g⟩ − x̂·⟨g·x̂⟩) with g = gain·dy,
/// dgain += Σ dy·x̂, dbias += Σ dy. Adds straight into the residual's gradient.
template <class Backend>
[[nodiscard]] variable layer_norm(tape<Backend>& t, const variable& x, const parameter& gain, const parameter& bias,
                                  float epsilon, dtype out = dtype::f32) {
  const std::int64_t rows = x.value.rows();
  const std::int64_t columns = x.value.columns();
  tensor y = t.make(out, {rows, columns});
  tensor mean = t.make(dtype::f32, {rows});
  tensor rstd = t.make(dtype::f32, {rows});
  detail::with_activation_type(out, [&]<class Out>() {
    kernels::layer_norm_forward(t.pool(), x.value.template data<float>(), gain.value, bias.value, y.data<Out>(),
                                mean.data<float>(), rstd.data<float>(), rows, columns, epsilon);
  });
  return t.result(
      std::move(y), [x, mean = std::move(mean), rstd = std::move(rstd), gain, bias](tape<Backend>& on, const tensor& dy) {
        const auto dx = on.target_of(x.slot, dtype::f32, x.value.shape());
        detail::with_activation_type(dy.type(), [&]<class In>() {
          kernels::layer_norm_backward(on.pool(), on.work(), x.value.template data<float>(), gain.value, mean.data<float>(),
                                       rstd.data<float>(), dy.data<In>(), dx.memory.template data<float>(), dx.accumulate,
                                       gain.gradient, bias.gradient, dy.rows(), dy.columns());
        });
      });
}

/// y = gain·x·r with r = 1/√(⟨x²⟩ + ε) (Zhang and Sennrich 2019). dx = r·(g − x·r²·⟨g·x⟩) with g = gain·dy,
/// dgain += Σ dy·x·r.
template <class Backend>
[[nodiscard]] variable rms_norm(tape<Backend>& t, const variable& x, const parameter& gain, float epsilon,
                                dtype out = dtype::f32) {
  const std::int64_t rows = x.value.rows();
  const std::int64_t columns = x.value.columns();
  tensor y = t.make(out, {rows, columns});
  tensor rstd = t.make(dtype::f32, {rows});
  detail::with_activation_type(out, [&]<class Out>() {
    kernels::rms_norm_forward(t.pool(), x.value.template data<float>(), gain.value, y.data<Out>(), rstd.data<float>(), rows,
                              columns, epsilon);
  });
  return t.result(std::move(y), [x, rstd = std::move(rstd), gain](tape<Backend>& on, const tensor& dy) {
    const auto dx = on.target_of(x.slot, dtype::f32, x.value.shape());
    detail::with_activation_type(dy.type(), [&]<class In>() {
      kernels::rms_norm_backward(on.pool(), on.work(), x.value.template data<float>(), gain.value, rstd.data<float>(),
                                 dy.data<In>(), dx.memory.template data<float>(), dx.accumulate, gain.gradient, dy.rows(),
                                 dy.columns());
    });
  });
}

/// y = gelu(x), the tanh form (Hendrycks and Gimpel 2016). dx = dy·gelu'(x).
template <class Backend>
[[nodiscard]] variable gelu(tape<Backend>& t, const variable& x) {
  tensor y = t.make(x.value.type(), x.value.shape());
  detail::with_activation_type(x.value.type(), [&]<class Act>() {
    kernels::gelu_forward(t.pool(), x.value.template data<Act>(), y.data<Act>(), y.count());
  });
  return t.result(std::move(y), [x](tape<Backend>& on, tensor dy) {
    tensor dx = on.exclusive(std::move(dy));
    detail::with_activation_type(dx.type(), [&]<class Act>() {
      kernels::gelu_backward(on.pool(), x.value.template data<Act>(), dx.data<Act>(), dx.data<Act>(), dx.count());
    });
    on.contribute(x.slot, std::move(dx));
  });
}

/// y = silu(gate)·up where a row of x is [gate | up] (Shazeer 2020). dgate = dy·up·silu'(gate), dup = dy·silu(gate).
template <class Backend>
[[nodiscard]] variable swiglu(tape<Backend>& t, const variable& x) {
  const std::int64_t rows = x.value.rows();
  const std::int64_t hidden = x.value.columns() / 2;
  tensor y = t.make(x.value.type(), {rows, hidden});
  detail::with_activation_type(x.value.type(), [&]<class Act>() {
    kernels::swiglu_forward(t.pool(), x.value.template data<Act>(), y.data<Act>(), rows, hidden);
  });
  return t.result(std::move(y), [x, rows, hidden](tape<Backend>& on, const tensor& dy) {
    tensor dx = on.make(x.value.type(), x.value.shape());
    detail::with_activation_type(dy.type(), [&]<class Act>() {
      kernels::swiglu_backward(on.pool(), x.value.template data<Act>(), dy.data<Act>(), dx.data<Act>(), rows, hidden);
    });
    on.contribute(x.slot, std::move(dx));
  });
}

/// y = a + b in f32. Both gradients are dy: the two share its buffer until one of them is added to.
template <class Backend>
[[nodiscard]] variable add(tape<Backend>& t, const variable& a, const variable& b) {
  CAUSEWAY_EXPECT(a.value.shape() == b.value.shape());
  tensor y = t.make(dtype::f32, a.value.shape());
  kernels::add(t.pool(), y.data<float>(), a.value.template data<float>(), b.value.template data<float>(), y.count());
  return t.result(std::move(y), [sa = a.slot, sb = b.slot](tape<Backend>& on, tensor dy) {
    on.contribute(sa, dy);
    on.contribute(sb, std::move(dy));
  });
}

/// y = x·mask/(1 − rate), the mask a function of (seed, stream, index); dx = dy·mask/(1 − rate) with the same mask. Works
/// in place: pass x by moving it in. A rate of 0 is the identity.
template <class Backend>
[[nodiscard]] variable dropout(tape<Backend>& t, variable x, float rate, std::uint64_t seed, std::uint64_t stream) {
  if (rate <= 0.0F) return x;
  const auto apply = [rate, seed, stream](tape<Backend>& on, tensor& v) {
    detail::with_activation_type(
        v.type(), [&]<class Act>() { kernels::dropout_apply(on.pool(), v.data<Act>(), v.count(), rate, seed, stream); });
  };
  tensor y = t.exclusive(std::move(x.value));
  apply(t, y);
  return t.result(std::move(y), [slot = x.slot, apply](tape<Backend>& on, tensor dy) {
    tensor dx = on.exclusive(std::move(dy));
    apply(on, dx);
    on.contribute(slot, std::move(dx));
  });
}

/// How the heads lie in a packed row [q (heads) | k (kv_heads) | v (kv_heads)], each head `head_size` wide.
struct head_layout {
  std::int64_t batch = 0;
  std::int64_t T = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;

  [[nodiscard]] constexpr std::int64_t row() const noexcept { return (heads + 2 * kv_heads) * head_size; }
};

/// Turns q and k by their position (Su et al. 2021); the gradient is turned back. Works in place: move x in. `table` must
/// outlive the tape's recording.
template <class Backend>
[[nodiscard]] variable rotary(tape<Backend>& t, variable x, const kernels::rotary_table& table, const head_layout& layout) {
  const auto apply = [&table, layout](tape<Backend>& on, tensor& v, bool inverse) {
    detail::with_activation_type(v.type(), [&]<class Act>() {
      kernels::rotary_apply(on.pool(), table, v.data<Act>(), layout.batch, layout.T, layout.row(),
                            layout.heads + layout.kv_heads, layout.head_size, inverse);
    });
  };
  tensor y = t.exclusive(std::move(x.value));
  apply(t, y, false);
  return t.result(std::move(y), [slot = x.slot, apply](tape<Backend>& on, tensor dy) {
    tensor dx = on.exclusive(std::move(dy));
    apply(on, dx, true);
    on.contribute(slot, std::move(dx));
  });
}

namespace detail {

inline kernels::attention_shape attention_shape_of(const head_layout& l) noexcept {
  kernels::attention_shape s;
  s.batch = l.batch, s.T = l.T, s.heads = l.heads, s.kv_heads = l.kv_heads, s.head_size = l.head_size;
  s.q_stride = s.k_stride = s.v_stride = l.row();
  s.o_stride = l.heads * l.head_size;
  s.scale = 1.0F / std::sqrt(static_cast<float>(l.head_size));
  return s;
}

}  // namespace detail

/// o = softmax(q·kᵀ/√d, causal)·v for packed rows (`head_layout`); keeps q, k, v, o and one number per row and head. With
/// P the probabilities made again: dv = Pᵀ·do, dS = P∘(do·vᵀ − ⟨do, o⟩), dq = dS·k/√d, dk = dSᵀ·q/√d (Dao 2023).
template <class Backend>
[[nodiscard]] variable attention(tape<Backend>& t, const variable& qkv, const head_layout& layout) {
  const auto shape = detail::attention_shape_of(layout);
  const std::int64_t k = layout.heads * layout.head_size;
  const std::int64_t v = k + layout.kv_heads * layout.head_size;
  tensor o = t.make(qkv.value.type(), {qkv.value.rows(), shape.o_stride});
  tensor sums = t.make(dtype::f32, {layout.batch * layout.heads, layout.T});
  detail::with_activation_type(o.type(), [&]<class Act>() {
    const Act* p = qkv.value.template data<Act>();
    kernels::attention_forward(t.pool(), t.work(), shape, p, p + k, p + v, o.data<Act>(), sums.data<float>());
  });
  return t.result(o, [qkv, o, sums = std::move(sums), shape, k, v](tape<Backend>& on, const tensor& d_o) {
    tensor d = on.make(qkv.value.type(), qkv.value.shape());
    detail::with_activation_type(d.type(), [&]<class Act>() {
      const Act* p = qkv.value.template data<Act>();
      Act* g = d.data<Act>();
      kernels::attention_backward(on.pool(), on.work(), shape, p, p + k, p + v, o.data<Act>(), d_o.data<Act>(),
                                  sums.data<float>(), g, g + k, g + v);
    });
    on.contribute(qkv.slot, std::move(d));
  });
}

/// The output layer and its loss: Σ over rows of −log softmax(x·Wᵀ)[target], rows with a negative target left out. While
/// recording, the gradient of grad_scale × that sum is made at once (dx = grad_scale·(softmax − onehot)·W, dW +=
/// grad_scale·(softmax − onehot)ᵀ·x), because the logits are gone afterwards; `backward()` then starts from it.
template <class Backend>
[[nodiscard]] double cross_entropy(tape<Backend>& t, const variable& x, const parameter& weight,
                                   std::span<const std::int32_t> targets, float grad_scale) {
  const bool training = t.recording() && x.wants_gradient();
  tensor dx = training ? t.make(x.value.type(), x.value.shape()) : tensor{};
  const double loss = detail::with_activation_type(x.value.type(), [&]<class Act>() {
    return kernels::cross_entropy(t.pool(), t.work(), t.backend().gemm(), x.value.template data<Act>(),
                                  weight.template data<Act>(), targets.data(), x.value.rows(), x.value.columns(),
                                  weight.rows, grad_scale, training ? dx.data<Act>() : nullptr,
                                  training ? weight.gradient : nullptr);
  });
  if (training) t.contribute(x.slot, std::move(dx));
  return loss;
}

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_OPS_HPP

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
  explicit state_buffer(std::int64_t length) : values_{static_cast<std::size_t>(length)} {}

  [[nodiscard]] float* data() noexcept { return values_.data(); }
  [[nodiscard]] const float* data() const noexcept { return values_.data(); }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(values_.size()); }
  [[nodiscard]] std::span<const float> span() const noexcept { return values_.span(); }

  /// Through pieces of 4 MiB, so that a checkpoint needs no second copy of the state.
  template <class Archive>
  void serialize(Archive& ar) {
    std::uint64_t length = values_.size();
    ar(length);
    if (length != values_.size()) values_ = aligned_buffer<float>{static_cast<std::size_t>(length)};
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

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = state_buffer{length};
    clock_ = {};
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

// ---- causeway/optim/muon.hpp ----
#ifndef CAUSEWAY_OPTIM_MUON_HPP
#define CAUSEWAY_OPTIM_MUON_HPP

// Muon (Jordan et al. 2024): Nesterov momentum whose update is orthogonalised, for the matrices of hidden layers; AdamW for
// embeddings, the output head and vectors. A segment is orthogonalised as the one matrix it is stored as. The result
// depends on the Gemm, so replicas that step on their own stay equal only with equal processors and thread counts.

namespace causeway::inline CAUSEWAY_ABI::optim {

struct muon_options {
  float momentum = 0.95F;
  float weight_decay = 0.0F;  ///< decoupled, for matrices
  int iterations = 5;         ///< of Newton-Schulz
  float adamw_rate = 0.015F;  ///< AdamW's learning rate as a part of Muon's (0.02 and 3e-4 are the usual pair)
  adamw_options adamw{};      ///< for all that is not a matrix
};

/// One step for a matrix W [rows, columns]: u = mu·u + g; X = g + mu·u; X = X / |X|; then `iterations` times
/// A = X·Xt, X = 3.4445·X + (-4.7750·A + 2.0315·A²)·X, on the smaller side; W -= lr·(sqrt(max(1, rows/columns))·X + wd·W),
/// Keller Jordan's scaling, in f32. Costs about 4·iterations·rows·columns·min(rows, columns) multiply-adds a step and
/// keeps 4 bytes a matrix parameter, 8 for others; the working memory is twice the largest matrix and twice its square.
template <kernels::Gemm Gemm = kernels::default_gemm>
  requires std::default_initializable<Gemm> && std::movable<Gemm>
class muon {
 public:
  static constexpr std::string_view name = "muon";

  explicit muon(muon_options options = {}, Gemm gemm = Gemm{}) : options_{options}, gemm_{std::move(gemm)} {}

  [[nodiscard]] const muon_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = {};
    clock_ = {};
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    if (second_.size() == 0) second_ = state_buffer{second_moments(view.segments)};
    step_options adamw_step = step;
    adamw_step.learning_rate *= options_.adamw_rate;
    const kernels::adamw_coefficients decayed = clock_.advance(options_.adamw, adamw_step);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    float* second = second_.data();
    for (const parameter_segment& s : view.segments) {
      if (s.kind == parameter_kind::matrix) {
        step_matrix(pool, view, s, step);
        continue;
      }
      kernels::adamw_update(pool, view.values.data() + s.offset, view.gradients.data() + s.offset, first_.data() + s.offset,
                            second, s.size(), detail::decays(s.kind) ? decayed : plain);
      second += padded(s.size());
    }
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(first_, second_, clock_);
  }

 private:
  static constexpr std::int64_t padded(std::int64_t count) noexcept { return (count + 15) / 16 * 16; }

  /// Matrices need no second moment, so the others' are stored one after another.
  static std::int64_t second_moments(std::span<const parameter_segment> segments) noexcept {
    std::int64_t length = 0;
    for (const auto& s : segments) length += s.kind == parameter_kind::matrix ? 0 : padded(s.size());
    return length;
  }

  void step_matrix(thread_pool& pool, const parameter_view& view, const parameter_segment& s, const step_options& step) {
    auto frame = memory_.open();
    const auto count = static_cast<std::size_t>(s.size());
    float* x = frame.template take<float>(count);
    float* next = frame.template take<float>(count);
    kernels::muon_momentum(pool, x, view.gradients.data() + s.offset, first_.data() + s.offset, s.size(), options_.momentum,
                           step.gradient_scale);
    x = orthogonalise(pool, x, next, s.rows, s.columns);
    const float tall = std::sqrt(std::max(1.0F, static_cast<float>(s.rows) / static_cast<float>(s.columns)));
    kernels::sgd_update(pool, view.values.data() + s.offset, x, s.size(),
                        {step.learning_rate, 0.0F, options_.weight_decay, tall});
  }

  /// Newton-Schulz; `x` and `next` [rows, columns] take turns, and the one with the result is returned.
  float* orthogonalise(thread_pool& pool, float* x, float* next, std::int64_t rows, std::int64_t columns) {
    const bool wide = rows <= columns;
    const std::int64_t side = std::min(rows, columns);
    auto frame = memory_.open();
    float* a = frame.template take<float>(static_cast<std::size_t>(side * side));
    float* aa = frame.template take<float>(static_cast<std::size_t>(side * side));
    const auto norm = static_cast<float>(std::sqrt(kernels::sum_of_squares(pool, x, rows * columns)));
    kernels::scale(pool, x, 1.0F / (norm + 1e-7F), rows * columns);
    for (int i = 0; i < options_.iterations; ++i) {
      multiply(pool, !wide, wide, side, side, wide ? columns : rows, x, columns, x, columns, a, side);
      multiply(pool, false, false, side, side, side, a, side, a, side, aa, side);
      polynomial(pool, a, aa, side);
      if (wide) {
        multiply(pool, false, false, rows, columns, side, a, side, x, columns, next, columns);
      } else {
        multiply(pool, false, false, rows, columns, side, x, columns, a, side, next, columns);
      }
      std::swap(x, next);
    }
    return x;
  }

  /// a = 3.4445·I - 4.7750·a + 2.0315·aa.
  static void polynomial(thread_pool& pool, float* a, const float* aa, std::int64_t side) {
    kernels::scale(pool, a, -4.7750F, side * side);
    kernels::axpy(pool, a, 2.0315F, aa, side * side);
    for (std::int64_t i = 0; i < side; ++i) a[i * side + i] += 3.4445F;
  }

  void multiply(thread_pool& pool, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
    kernels::gemm_args<float, float> args;
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = a;
    args.lda = lda;
    args.b = b;
    args.ldb = ldb;
    args.c = c;
    args.ldc = ldc;
    gemm_.multiply(pool, memory_, args);
  }

  muon_options options_;
  Gemm gemm_;
  scratch memory_;
  state_buffer first_;
  state_buffer second_;
  adam_clock clock_;
};

static_assert(Optimizer<muon<>>);

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_MUON_HPP

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

// ---- causeway/optim/sgd.hpp ----
#ifndef CAUSEWAY_OPTIM_SGD_HPP
#define CAUSEWAY_OPTIM_SGD_HPP

// Stochastic gradient descent, with momentum if asked for. As an outer optimizer with rate 1 and no momentum it applies an
// averaged pseudo-gradient exactly: p - g, in one rounding.

namespace causeway::inline CAUSEWAY_ABI::optim {

struct sgd_options {
  float momentum = 0.0F;      ///< 0: none, and no state
  float weight_decay = 0.0F;  ///< added to the gradient; not for vectors
};

/// u = momentum·u + g + wd·p; p -= lr·u (PyTorch's SGD without dampening). Moves 12 bytes a parameter, 20 with momentum,
/// which also keeps 4 bytes a parameter.
class sgd {
 public:
  static constexpr std::string_view name = "sgd";
  static constexpr bool reports_updates = true;

  explicit sgd(sgd_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const sgd_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) { velocity_ = state_buffer{options_.momentum != 0.0F ? length : 0}; }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    const bool momentum = options_.momentum != 0.0F;
    CAUSEWAY_EXPECT(!momentum || velocity_.size() == static_cast<std::int64_t>(view.values.size()));
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      const kernels::sgd_coefficients c{step.learning_rate, options_.momentum, decay ? options_.weight_decay : 0.0F,
                                        step.gradient_scale};
      float* p = view.values.data() + begin;
      const float* g = view.gradients.data() + begin;
      if (!step.update_sum.empty()) {
        reported_update(p, g, momentum ? velocity_.data() + begin : nullptr, step.update_sum.data() + begin, count, c);
      } else if (momentum) {
        kernels::momentum_update(p, g, velocity_.data() + begin, count, c);
      } else {
        kernels::sgd_update(p, g, count, c);
      }
    });
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(velocity_);
  }

 private:
  static void reported_update(float* p, const float* g, float* velocity, float* sum, std::int64_t count,
                              const kernels::sgd_coefficients& c) {
    for (std::int64_t i = 0; i < count; ++i) {
      float u = c.gradient_scale * g[i] + c.weight_decay * p[i];
      if (velocity != nullptr) u = velocity[i] = c.momentum * velocity[i] + u;
      u *= c.learning_rate;
      sum[i] += u;
      p[i] -= u;
    }
  }

  sgd_options options_;
  state_buffer velocity_;
};

static_assert(Optimizer<sgd> && ReportsUpdates<sgd>);

}  // namespace causeway::inline CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_SGD_HPP

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
  automatic,  ///< one_shot up to collective_options::one_shot_bytes, butterfly beyond
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
  time_point deadline = no_deadline;                  ///< on the transport's clock, for the whole call
  algorithm how = algorithm::automatic;               ///< must be the same on all peers, as must the next three
  std::size_t chunk_bytes = std::size_t{256} << 10U;  ///< f32 bytes that are sent, summed and passed on as one piece
  std::size_t one_shot_bytes = std::size_t{64} << 10U;
  std::uint32_t window = 4;                   ///< chunks under way at a time in each of the two phases
  thread_pool* pool = nullptr;                ///< for sums and codecs; none: the caller's thread
  collective_workspace* workspace = nullptr;  ///< none: allocated for this call
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
    places_[place] = transport_.send(to, id_of(what), bytes);
  }

  void receive(std::size_t place, net::peer_index from, const part& what, std::span<std::byte> buffer) {
    CAUSEWAY_EXPECT(places_[place] == 0);
    places_[place] = transport_.receive(from, id_of(what), buffer);
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
    auto moved = transport_.wait(op, deadline_);
    if (!moved && moved.error().where.empty()) moved.error().where = peer_name(peer);
    return moved;
  }

  /// As wait, for a send.
  result<void> finish(std::size_t place, net::peer_index peer) {
    if (auto moved = wait(place, peer); !moved) return std::move(moved).error();
    return {};
  }

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
  [[nodiscard]] net::message_id id_of(const part& what) const {
    net::message_id id = id_;
    id.channel = numbered(id_.channel + what.phase, what.chunk);
    return id;
  }

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

/// Whose values were refused and why. `peer` equal to the number of peers: nobody's; the sum itself is too large for f32.
struct refusal {
  std::uint32_t peer = 0;
  errc code = errc::non_finite;
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
  if (words[0] > peers || words[1] > 0xFFFFU || !known) return std::nullopt;
  return refusal{words[0], code};
}

/// Keeps one of several refusals: the lowest peer's, so that all peers report the same one.
inline void note(std::optional<refusal>& kept, const refusal& r) noexcept {
  if (!kept || r.peer < kept->peer) kept = r;
}

inline error to_error(const refusal& r, std::uint32_t peers) {
  if (r.peer == peers) {
    return fail(errc::non_finite, "all-reduce", "the sum of finite values is too large for f32; lower the learning rate");
  }
  const char* what = r.code == errc::non_finite ? "its values hold NaN or infinity; nobody uses this round's result"
                     : r.code == errc::corrupt  ? "its values cannot be decoded; nobody uses this round's result"
                                                : "it sent the wrong number of bytes; do all peers run the same options?";
  return fail(r.code, "peer " + std::to_string(r.peer), what);
}

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_REFUSAL_HPP

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
        window_{std::max(options.window, 1U)},
        depth_{2 * std::size_t{window_} + 1},
        chunk_{chunk_elements(data.size(), options.chunk_bytes)},
        chunks_{(largest_shard() + chunk_ - 1) / chunk_},
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
    const std::span<float> next{sums(1), mine.size()};
    const auto count = static_cast<std::int64_t>(mine.size());
    (void)codec_.encode(pool_, mine, slot(received_part, k, self_));  // its own contribution takes the same way
    for (net::peer_index p = 0; p < peers_; ++p) {
      const auto bytes = slot(received_part, k, p).first(sizes_[p]);
      if (auto decoded = codec_.decode(pool_, bytes, p == 0 ? sum : next); !decoded)
        return refusal{p, decoded.error().code};
      const float* const both[] = {sum.data(), next.data()};
      if (p != 0 && !sum_parts(pool_, both, 1.0F, sum.data(), count)) return refusal{peers_, errc::non_finite};
    }
    const float* const whole[] = {sum.data()};
    if (!sum_parts(pool_, whole, factor_, sum.data(), count)) return refusal{peers_, errc::non_finite};
    const auto room = slot(received_result, k, self_);
    const std::size_t bytes = codec_.encode(pool_, sum, room);
    if (!codec_.decode(pool_, room.first(bytes), mine)) return refusal{peers_, errc::non_finite};
    return std::nullopt;
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
      // Its owner has checked that it is finite; looking again would cost 6 % of the whole on a loopback network.
      if (moved != target.size_bytes()) note(refusal_, {owner, errc::protocol});
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
    const auto claimed = from_bytes(std::span{bytes}.first(moved), peers_);
    note(refusal_, claimed.value_or(refusal{owner, errc::protocol}));
    return {};
  }

  std::span<float> data_;
  const C& codec_;
  float factor_;
  thread_pool& pool_;
  net::peer_index self_;
  std::uint32_t peers_;
  std::uint32_t window_;
  std::size_t depth_;
  std::size_t chunk_;
  std::size_t chunks_;
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
    if (!own_finite) return fail(errc::non_finite, peer_name(self_), "this peer's own values hold NaN or infinity");
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
    how = data.size_bytes() <= options.one_shot_bytes ? algorithm::one_shot : algorithm::butterfly;
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

// ---- causeway/collective/barrier.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_BARRIER_HPP
#define CAUSEWAY_COLLECTIVE_BARRIER_HPP

// Nobody leaves before everybody has come.

namespace causeway::inline CAUSEWAY_ABI::collective {

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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_BARRIER_HPP

// ---- causeway/collective/broadcast.hpp ----
#ifndef CAUSEWAY_COLLECTIVE_BROADCAST_HPP
#define CAUSEWAY_COLLECTIVE_BROADCAST_HPP

// One peer's bytes to all others.

namespace causeway::inline CAUSEWAY_ABI::collective {

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

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_BROADCAST_HPP

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
  bool lossy = true;       ///< decode(encode(x)) may differ from x: feed the residual back, or lose it
  bool additive = false;   ///< sums of encoded values can be made without decoding them
  bool per_block = false;  ///< values share a scale with their neighbours, so blocks must not be cut
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

// Codecs that store every value on its own, as another element type: the common part of none, bf16 and fp16.

namespace causeway::inline CAUSEWAY_ABI::compress::detail {

/// Whether any lane was set.
CAUSEWAY_ALWAYS_INLINE bool any_lane(const kernels::detail::i32x16& mask) {
  std::int32_t all = 0;
  for (int lane = 0; lane < 16; ++lane) all |= mask[lane];
  return all != 0;
}

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
    kernels::detail::i32x16 bad{};
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      bad |= (reinterpret_cast<kernels::detail::i32x16>(v) & 0x7F800000) == 0x7F800000;
      kernels::detail::store(to + i, v, part);
    });
    return !any_lane(bad);
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

}  // namespace causeway::inline CAUSEWAY_ABI::compress::detail

#endif  // CAUSEWAY_COMPRESS_ELEMENT_HPP

// ---- causeway/compress/bf16.hpp ----
#ifndef CAUSEWAY_COMPRESS_BF16_HPP
#define CAUSEWAY_COMPRESS_BF16_HPP

// Every value as bfloat16: the range of f32 with 8 bits of precision.

namespace causeway::inline CAUSEWAY_ABI::compress {

/// 2 n bytes, relative error at most 2^-8 (values below 2^-126: absolute error at most 2^-134). Values that round beyond
/// the largest bf16, 3.39e38, become infinite, which decode refuses.
class bf16 {
 public:
  static constexpr std::string_view name = "bf16";
  static constexpr codec_traits traits{.lossy = true};
  static constexpr bool raw = false;

  [[nodiscard]] static constexpr std::size_t block() noexcept { return 1; }
  [[nodiscard]] static constexpr std::size_t encoded_size(std::size_t n) noexcept { return n * 2; }

  static std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                            kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::encode_as<causeway::bf16>(pool, values, room, level);
  }
  static result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                             kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::decode_as<causeway::bf16>(pool, bytes, values, level, name);
  }
};
static_assert(Codec<bf16>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_BF16_HPP

// ---- causeway/compress/block_int8.hpp ----
#ifndef CAUSEWAY_COMPRESS_BLOCK_INT8_HPP
#define CAUSEWAY_COMPRESS_BLOCK_INT8_HPP

// Eight-bit integers with one scale per block of neighbouring values (Dettmers et al., 2022, section 2, with a linear
// instead of a dynamic code). On the wire: all scales, then one code per value. A value is scale · code with a code between
// -127 and 127.

namespace causeway::inline CAUSEWAY_ABI::compress {

enum class scale_format : std::uint8_t { f32, bf16 };

struct block_int8_options {
  std::uint32_t block = 256;  ///< values that share a scale: 64 to 4096, a multiple of 16
  scale_format scales = scale_format::f32;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(block, scales);
  }
};

/// errc::invalid_argument when the options cannot work.
inline result<void> validate(const block_int8_options& o) {
  const bool known = o.scales == scale_format::f32 || o.scales == scale_format::bf16;
  if (known && o.block >= 64 && o.block <= 4096 && o.block % 16 == 0) return {};
  return fail(errc::invalid_argument, "block_int8",
              "a block of " + std::to_string(o.block) + " values; take 64 to 4096, a multiple of 16");
}

namespace detail {

using i8x16 [[gnu::vector_size(16)]] = std::int8_t;

enum class decoding : std::uint8_t { good = 0, corrupt = 1, non_finite = 2 };

CAUSEWAY_ALWAYS_INLINE float load_scale(const std::byte* scales, std::int64_t block, scale_format format) {
  if (format == scale_format::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, scales + block * 2, sizeof bits);
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  }
  float scale = 0;
  std::memcpy(&scale, scales + block * 4, sizeof scale);
  return scale;
}

/// Stores the scale and gives back what a reader will see. Rounded up in bf16, so that no code exceeds 127.
CAUSEWAY_ALWAYS_INLINE float store_scale(std::byte* scales, std::int64_t block, scale_format format, float scale) {
  if (format == scale_format::bf16) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    const bool finite = bits < 0x7F800000U;
    const auto rounded = static_cast<std::uint16_t>(finite ? (bits + 0xFFFFU) >> 16U : 0x7FC0U);
    std::memcpy(scales + block * 2, &rounded, sizeof rounded);
  } else {
    std::memcpy(scales + block * 4, &scale, sizeof scale);
  }
  return load_scale(scales, block, format);
}

/// Largest magnitude, as bits: NaN counts as more than infinity, and infinity as more than any number.
CAUSEWAY_ALWAYS_INLINE float largest_magnitude(const float* x, std::int64_t count) {
  kernels::detail::i32x16 most{};
  kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
    kernels::detail::f32x16 v;
    kernels::detail::load(v, x + i, part);
    const kernels::detail::i32x16 magnitude = reinterpret_cast<kernels::detail::i32x16>(v) & 0x7FFFFFFF;
    most = magnitude > most ? magnitude : most;
  });
  std::int32_t largest = 0;
  for (int lane = 0; lane < 16; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  return std::bit_cast<float>(largest);
}

CAUSEWAY_ALWAYS_INLINE void store_codes(std::int8_t* to, const i8x16& codes, kernels::detail::whole) {
  std::memcpy(to, &codes, sizeof codes);
}
CAUSEWAY_ALWAYS_INLINE void store_codes(std::int8_t* to, const i8x16& codes, kernels::detail::tail part) {
  std::memcpy(to, &codes, static_cast<std::size_t>(part.count));
}

/// Encodes whole blocks and perhaps a last shorter one, starting at a block's start.
struct encode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* x, std::byte* scales, std::int8_t* codes, std::int64_t count,
                                         std::int64_t block, scale_format format) {
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const float largest = largest_magnitude(x + b * block, length);
      const float scale = store_scale(scales, b, format, largest / 127.0F);
      // A block of zeros, of numbers so small that 1/scale overflows, or with NaN or infinity: all codes are zero.
      const bool usable = scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max();
      const float inverse = usable ? 1.0F / scale : 0.0F;
      if (!usable) {
        if (scale < std::numeric_limits<float>::min()) store_scale(scales, b, format, 0.0F);
        std::memset(codes + b * block, 0, static_cast<std::size_t>(length));
        continue;
      }
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        kernels::detail::f32x16 v;
        kernels::detail::load(v, x + b * block + i, part);
        v = v * inverse + 0x1.8p23F;  // rounds to the nearest integer, ties to even, and leaves it in the low bits
        const kernels::detail::i32x16 code = reinterpret_cast<kernels::detail::i32x16>(v) - 0x4B400000;
        store_codes(codes + b * block + i, __builtin_convertvector(code, i8x16), part);
      });
    }
  }
};

struct decode_blocks {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static decoding run(const std::byte* scales, const std::int8_t* codes, float* x,
                                             std::int64_t count, std::int64_t block, scale_format format) {
    kernels::detail::i32x16 bad{};
    auto found = decoding::good;
    for (std::int64_t b = 0; b * block < count; ++b) {
      const std::int64_t length = std::min(block, count - b * block);
      const float scale = load_scale(scales, b, format);
      if ((std::bit_cast<std::uint32_t>(scale * 127.0F) & 0x7F800000U) == 0x7F800000U) return decoding::non_finite;
      if ((std::bit_cast<std::uint32_t>(scale) >> 31U) != 0) found = decoding::corrupt;
      kernels::detail::for_lanes(length, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        i8x16 raw{};
        if constexpr (std::is_same_v<decltype(part), kernels::detail::whole>) {
          std::memcpy(&raw, codes + b * block + i, sizeof raw);
        } else {
          std::memcpy(&raw, codes + b * block + i, static_cast<std::size_t>(part.count));
        }
        const kernels::detail::i32x16 code = __builtin_convertvector(raw, kernels::detail::i32x16);
        bad |= code == -128;
        const kernels::detail::f32x16 v = __builtin_convertvector(code, kernels::detail::f32x16) * scale;
        kernels::detail::store(x + b * block + i, v, part);
      });
    }
    return any_lane(bad) ? decoding::corrupt : found;
  }
};

}  // namespace detail

/// n + s · ceil(n / block) bytes, s = 4 (f32 scales) or 2 (bf16). scale = max|x| / 127 of the block, codes round to the
/// nearest, ties to even. Error at most max|x| / 254 of the block (1.01 times that with bf16 scales, which are rounded up),
/// and at most 1.5e-36 where a block is smaller than that. Each code of a block of zeros is zero.
class block_int8 {
 public:
  static constexpr std::string_view name = "block_int8";
  static constexpr codec_traits traits{.lossy = true, .per_block = true};
  static constexpr bool raw = false;

  explicit block_int8(const block_int8_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] std::size_t block() const noexcept { return options_.block; }
  [[nodiscard]] std::size_t encoded_size(std::size_t n) const noexcept { return n + scale_bytes(n); }
  [[nodiscard]] const block_int8_options& options() const noexcept { return options_; }

  std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                     kernels::simd_level level = kernels::detect_simd_level()) const {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const codes = reinterpret_cast<std::int8_t*>(room.data() + scale_bytes(values.size()));
    for_blocks(pool, values.size(), [&](index_range r) {
      kernels::detail::dispatch<detail::encode_blocks>(level, values.data() + r.begin, room.data() + scale_offset(r.begin),
                                                       codes + r.begin, r.size(), std::int64_t{options_.block},
                                                       options_.scales);
    });
    return encoded_size(values.size());
  }

  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                      kernels::simd_level level = kernels::detect_simd_level()) const {
    if (bytes.size() != encoded_size(values.size())) {
      return detail::wrong_length(name, bytes.size(), encoded_size(values.size()));
    }
    const auto* const codes = reinterpret_cast<const std::int8_t*>(bytes.data() + scale_bytes(values.size()));
    std::atomic<unsigned> worst{0};
    for_blocks(pool, values.size(), [&](index_range r) {
      const auto found = kernels::detail::dispatch<detail::decode_blocks>(
          level, bytes.data() + scale_offset(r.begin), codes + r.begin, values.data() + r.begin, r.size(),
          std::int64_t{options_.block}, options_.scales);
      worst.fetch_or(static_cast<unsigned>(found), std::memory_order_relaxed);
    });
    const unsigned bad = worst.load(std::memory_order_relaxed);
    if ((bad & static_cast<unsigned>(detail::decoding::non_finite)) != 0) return detail::not_finite(name);
    if (bad != 0)
      return fail(errc::corrupt, std::string{name}, "a scale below zero or a code of -128: no encoder makes them");
    return {};
  }

 private:
  [[nodiscard]] std::size_t bytes_per_scale() const noexcept { return options_.scales == scale_format::f32 ? 4 : 2; }
  [[nodiscard]] std::size_t scale_bytes(std::size_t n) const noexcept {
    return (n + options_.block - 1) / options_.block * bytes_per_scale();
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t first_value) const noexcept {
    return static_cast<std::size_t>(first_value) / options_.block * bytes_per_scale();
  }

  template <class F>
  void for_blocks(thread_pool& pool, std::size_t n, F&& f) const {
    const auto count = static_cast<std::int64_t>(n);
    if (count <= kernels::detail::smallest_share) {
      if (count > 0) f(index_range{0, count});
    } else {
      pool.for_range(count, std::int64_t{options_.block}, f);
    }
  }

  block_int8_options options_;
};
static_assert(Codec<block_int8>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_BLOCK_INT8_HPP

// ---- causeway/compress/fp16.hpp ----
#ifndef CAUSEWAY_COMPRESS_FP16_HPP
#define CAUSEWAY_COMPRESS_FP16_HPP

// Every value as IEEE half precision: 11 bits of precision between 6.1e-5 and 65504, which fits gradients of sane size.

namespace causeway::inline CAUSEWAY_ABI::compress {

/// 2 n bytes, relative error at most 2^-11 for magnitudes of 6.1e-5 and more, absolute error at most 2^-25 below. Beyond
/// 65504 values become infinite, which decode refuses: scale them, or use bf16.
class fp16 {
 public:
  static constexpr std::string_view name = "fp16";
  static constexpr codec_traits traits{.lossy = true};
  static constexpr bool raw = false;

  [[nodiscard]] static constexpr std::size_t block() noexcept { return 1; }
  [[nodiscard]] static constexpr std::size_t encoded_size(std::size_t n) noexcept { return n * 2; }

  static std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                            kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::encode_as<causeway::f16>(pool, values, room, level);
  }
  static result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                             kernels::simd_level level = kernels::detect_simd_level()) {
    return detail::decode_as<causeway::f16>(pool, bytes, values, level, name);
  }
};
static_assert(Codec<fp16>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_FP16_HPP

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
};
static_assert(Codec<none>);

}  // namespace causeway::inline CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_NONE_HPP

// ---- causeway/nn/declaration.hpp ----
#ifndef CAUSEWAY_NN_DECLARATION_HPP
#define CAUSEWAY_NN_DECLARATION_HPP

// How a family says which parameters it has and how each starts. Only matrices and tables start at random.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// How a parameter starts: normal with this mean and deviation.
struct initial_distribution {
  float mean = 0.0F;
  float deviation = 0.0F;
};

/// GPT-2's deviation, and the one of matrices that write into the residual stream: 2·layers of them add up.
inline constexpr float initial_deviation = 0.02F;
[[nodiscard]] inline float residual_deviation(std::int64_t layers) noexcept {
  return initial_deviation / std::sqrt(2.0F * static_cast<float>(layers));
}

/// Adds segments to a store and remembers how they start. All functions return the segment's number.
class declaration {
 public:
  explicit declaration(parameter_store& store) noexcept : store_{store} {}

  /// The block that the next parameters belong to (`parameter_segment::block`).
  void in_block(std::int64_t block) noexcept { block_ = static_cast<int>(block); }

  std::size_t table(std::string name, std::int64_t rows, std::int64_t columns) {
    return add(std::move(name), parameter_kind::embedding, rows, columns, {0.0F, initial_deviation});
  }
  std::size_t matrix(std::string name, std::int64_t outputs, std::int64_t inputs, float deviation = initial_deviation) {
    return add(std::move(name), parameter_kind::matrix, outputs, inputs, {0.0F, deviation});
  }
  std::size_t vector(std::string name, std::int64_t size, float value) {
    return add(std::move(name), parameter_kind::vector, 1, size, {value, 0.0F});
  }

  [[nodiscard]] std::vector<initial_distribution> take_initial() && noexcept { return std::move(initial_); }

 private:
  std::size_t add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns, initial_distribution d) {
    initial_.push_back(d);
    return store_.add(std::move(name), kind, rows, columns, block_);
  }

  parameter_store& store_;
  std::vector<initial_distribution> initial_;
  int block_ = -1;
};

/// Gives every parameter its initial value, a function of (seed, segment, row) alone: the same on every machine and for any
/// number of threads.
inline void fill_initial(thread_pool& pool, parameter_store& store, std::span<const initial_distribution> initial,
                         std::uint64_t seed) {
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    float* values = store.value(i);
    pool.for_range(s.rows, 1, [&, d = initial[i]](index_range part) {
      for (std::int64_t row = part.begin; row < part.end; ++row) {
        rng random{seed, mix(i, static_cast<std::uint64_t>(row), 0x696E6974U)};
        for (std::int64_t j = 0; j < s.columns; ++j) {
          values[row * s.columns + j] = d.deviation == 0.0F ? d.mean : d.mean + d.deviation * random.normal();
        }
      }
    });
  }
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_DECLARATION_HPP

// ---- causeway/nn/pass.hpp ----
#ifndef CAUSEWAY_NN_PASS_HPP
#define CAUSEWAY_NN_PASS_HPP

// What a model family sees while it computes: the tape, its parameters, the sizes of this batch. Passed by value into
// blocks that may be computed again, so it is small and changes nothing.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// One forward (and backward) computation over `batch` sequences of `T` tokens.
template <class Backend>
struct pass {
  parameter_store* store = nullptr;
  const bf16* low = nullptr;  ///< bf16 copies, laid out as the store; null in f32 mode
  std::int64_t batch = 0;
  std::int64_t T = 0;
  std::uint64_t dropout_stream = 0;
  float dropout = 0.0F;  ///< 0 outside training

  /// The type of operands of products.
  [[nodiscard]] dtype type() const noexcept { return low != nullptr ? dtype::bf16 : dtype::f32; }

  [[nodiscard]] autograd::parameter operator[](std::size_t segment) const noexcept {
    const auto& s = store->segments()[segment];
    return {store->value(segment), low != nullptr ? low + s.offset : nullptr, store->gradient(segment), s.rows, s.columns};
  }

  /// x after dropout. `place` tells the places of one model apart, so that no two share a mask.
  [[nodiscard]] autograd::variable drop(autograd::tape<Backend>& t, autograd::variable x, std::uint64_t place) const {
    return autograd::dropout(t, std::move(x), dropout, dropout_stream, place);
  }

  /// residual + dropout(x·Wᵀ + b). Without dropout the sum is part of the product.
  [[nodiscard]] autograd::variable add_linear(autograd::tape<Backend>& t, const autograd::variable& residual,
                                              const autograd::variable& x, const autograd::parameter& weight,
                                              const autograd::parameter& bias, std::uint64_t place) const {
    if (dropout <= 0.0F) return autograd::linear_to_residual(t, x, weight, bias, residual);
    return autograd::add(t, residual, drop(t, autograd::linear_to_residual(t, x, weight, bias), place));
  }
};

/// Bytes that one micro-batch keeps, as a family counts them; the model adds what all families share.
struct activation_bytes {
  std::size_t block = 0;      ///< kept by one block between its forward and its backward
  std::size_t transient = 0;  ///< the largest gradient inside a block for which no memory of its size was freed before
};

/// What a [rows, columns] activation takes from the pool.
[[nodiscard]] constexpr std::size_t pooled_bytes(std::int64_t rows, std::int64_t columns, std::size_t each) noexcept {
  return buffer_pool::rounded(static_cast<std::size_t>(rows * columns) * each);
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_PASS_HPP

// ---- causeway/nn/memory_estimate.hpp ----
#ifndef CAUSEWAY_NN_MEMORY_ESTIMATE_HPP
#define CAUSEWAY_NN_MEMORY_ESTIMATE_HPP

// How much memory a training step needs, from the shape alone: so that a peer can refuse a model before it starts, or
// choose recomputation. Counted as the tape really keeps things, size classes of the pool included.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// Bytes, by purpose. Optimizer state is the optimizer's to say.
struct memory_estimate {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t low_precision = 0;         ///< bf16 copies of the weights
  std::size_t activations = 0;           ///< kept between forward and backward, at their peak
  std::size_t activation_gradients = 0;  ///< made on the way back
  std::size_t logits = 0;                ///< one chunk of the output layer
  std::size_t scratch = 0;               ///< packed operands and partial sums of kernels

  [[nodiscard]] std::size_t total() const noexcept {
    return parameters + gradients + low_precision + activations + activation_gradients + logits + scratch;
  }
};

/// What an estimate depends on.
struct model_sizes {
  std::int64_t rows = 0;  ///< batch · T
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t vocabulary = 0;
  std::int64_t parameters = 0;  ///< length of the flat buffer
  bool low = false;
  bool recompute = false;
};

[[nodiscard]] inline memory_estimate estimate_memory(const model_sizes& s, const activation_bytes& family) noexcept {
  const auto bytes = [&s](std::int64_t columns, std::size_t each) { return pooled_bytes(s.rows, columns, each); };
  const std::size_t size = s.low ? 2 : 4;
  const auto layers = static_cast<std::size_t>(s.layers);
  const auto length = static_cast<std::size_t>(s.parameters);
  memory_estimate e;
  e.parameters = e.gradients = length * sizeof(float);
  e.low_precision = s.low ? length * 2 : 0;
  // All blocks, or the inputs of all blocks and one block; then the end of the stream and what the output layer reads.
  e.activations = (s.recompute ? layers * bytes(s.width, 4) + family.block : layers * family.block) + bytes(s.width, 4) +
                  bytes(s.width, size) + 2 * bytes(1, 4);
  // The gradient of the stream and of one norm's output, in bf16 mode a rounded copy, and the block's largest.
  e.activation_gradients = bytes(s.width, 4) + bytes(s.width, size) + (s.low ? bytes(s.width, size) : 0) + family.transient;
  const std::int64_t chunk = kernels::detail::rows_per_chunk(s.rows, s.vocabulary);
  e.logits = static_cast<std::size_t>(chunk * s.vocabulary) * (s.low ? 6 : 4);
  // Products pack blocks of both operands; the widest layer's is width × 4·width.
  e.scratch = (std::size_t{4} << 20U) + 16 * static_cast<std::size_t>(s.width * s.width);
  return e;
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_MEMORY_ESTIMATE_HPP

// ---- causeway/nn/micro_batch.hpp ----
#ifndef CAUSEWAY_NN_MICRO_BATCH_HPP
#define CAUSEWAY_NN_MICRO_BATCH_HPP

// The tokens of one forward and backward pass, and the checks they must pass before any kernel sees them: tokens come from
// files and peers, so a wrong one is an error, not a crash.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// `batch` sequences of equal length, at most the model's context, one after the other.
struct micro_batch {
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;  ///< as many as inputs; negative: this position does not count
  std::int64_t batch = 1;
  float grad_scale = 1.0F;  ///< what gradients are multiplied by; 1 / tokens for the gradient of the mean
  std::uint64_t dropout_stream = 0;
};

/// What a model accepts.
struct token_limits {
  std::string_view name;  ///< of the model, for messages
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
};

namespace detail {

inline error wrong_batch(const token_limits& l, std::string_view what, const std::string& message) {
  return fail(errc::invalid_argument, std::string{l.name} + " " + std::string{what}, message);
}

inline error wrong_token(const token_limits& l, std::string_view what, std::int32_t token) {
  return wrong_batch(l, what,
                     "token " + std::to_string(token) + "; the vocabulary has " + std::to_string(l.vocabulary) +
                         ": the tokenizer and the model do not match");
}

}  // namespace detail

/// Inputs must make `batch` sequences of 1 to context tokens, each in [0, vocabulary).
[[nodiscard]] inline result<void> check_inputs(const token_limits& l, const micro_batch& b) {
  const auto n = static_cast<std::int64_t>(b.inputs.size());
  if (b.batch < 1 || n < b.batch || n % b.batch != 0) {
    return detail::wrong_batch(
        l, "inputs",
        std::to_string(n) + " tokens do not make " + std::to_string(b.batch) + " sequences of equal, positive length");
  }
  if (n / b.batch > l.context) {
    return detail::wrong_batch(l, "inputs",
                               "sequences of " + std::to_string(n / b.batch) + " tokens; the context is " +
                                   std::to_string(l.context) + ": cut them, or raise the context");
  }
  for (const std::int32_t token : b.inputs) {
    if (token < 0 || token >= l.vocabulary) return detail::wrong_token(l, "inputs", token);
  }
  return {};
}

/// There must be one target for each input, below the vocabulary.
[[nodiscard]] inline result<void> check_targets(const token_limits& l, const micro_batch& b) {
  if (b.targets.size() != b.inputs.size()) {
    return detail::wrong_batch(l, "targets",
                               std::to_string(b.targets.size()) + " targets for " + std::to_string(b.inputs.size()) +
                                   " inputs; give one each (negative: ignore)");
  }
  for (const std::int32_t token : b.targets) {
    if (token >= l.vocabulary) return detail::wrong_token(l, "targets", token);
  }
  return {};
}

/// Activations that another stage sent must be f32 [inputs, width].
[[nodiscard]] inline result<void> check_boundary(const token_limits& l, const micro_batch& b, const tensor& boundary,
                                                 std::int64_t width) {
  const tensor_shape expected{static_cast<std::int64_t>(b.inputs.size()), width};
  if (boundary && boundary.type() == dtype::f32 && boundary.shape() == expected) return {};
  return detail::wrong_batch(l, "boundary",
                             boundary ? std::string{to_string(boundary.type())} + " " + boundary.shape().text() +
                                            " arrived; this stage needs f32 " + expected.text()
                                      : "nothing arrived; this stage needs f32 " + expected.text());
}

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_MICRO_BATCH_HPP

// ---- causeway/nn/options.hpp ----
#ifndef CAUSEWAY_NN_OPTIONS_HPP
#define CAUSEWAY_NN_OPTIONS_HPP

// What all model families share in their options, and the checks that turn a shape that cannot work into an error that
// says what would.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// What products are computed in. Parameters, gradients, sums and the residual stream are f32 in both.
enum class precision : std::uint8_t {
  f32,
  bf16,  ///< operands of products and the activations between them in bf16, f32 sums
};

constexpr std::string_view to_string(precision p) noexcept { return p == precision::bf16 ? "bf16" : "f32"; }

namespace detail {

/// A size option: its name, what was given, and the most that is allowed.
struct named_size {
  std::string_view name;
  std::int64_t value = 0;
  std::int64_t limit = 0;
};

/// Every size must lie in [1, limit].
inline result<void> check_sizes(std::string_view where, std::initializer_list<named_size> sizes) {
  for (const auto& s : sizes) {
    if (s.value >= 1 && s.value <= s.limit) continue;
    return fail(
        s.value < 1 ? errc::invalid_argument : errc::too_large, std::string{where},
        std::string{s.name} + " is " + std::to_string(s.value) + "; it must be between 1 and " + std::to_string(s.limit));
  }
  return {};
}

/// "1, 2, 4, 8": the divisors of `n`, ascending; in the middle of a long list, those around `near`.
inline std::string divisors_near(std::int64_t n, std::int64_t near) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d != n / d) all.push_back(n / d);
  }
  constexpr std::size_t most = 6;
  const auto distance = [near](std::int64_t d) { return d < near ? near - d : d - near; };
  std::string line;
  std::sort(all.begin(), all.end(), [&](auto a, auto b) { return distance(a) < distance(b); });
  if (all.size() > most) all.resize(most);
  std::sort(all.begin(), all.end());
  for (const std::int64_t d : all) line += (line.empty() ? "" : ", ") + std::to_string(d);
  return line;
}

/// `part` must divide `whole`.
inline result<void> check_divides(std::string_view where, std::string_view part_name, std::int64_t part,
                                  std::string_view whole_name, std::int64_t whole) {
  if (whole % part == 0) return {};
  return fail(errc::invalid_argument, std::string{where},
              std::string{part_name} + " (" + std::to_string(part) + ") does not divide " + std::string{whole_name} + " (" +
                  std::to_string(whole) + "); use one of " + divisors_near(whole, part));
}

inline result<void> check_fraction(std::string_view where, std::string_view name, float value) {
  if (value >= 0.0F && value < 1.0F) return {};
  return fail(errc::invalid_argument, std::string{where},
              std::string{name} + " is " + std::to_string(value) + "; it must be at least 0 and less than 1");
}

inline result<void> check_positive(std::string_view where, std::string_view name, float value) {
  if (value > 0.0F && value < 3.0e38F) return {};
  return fail(errc::invalid_argument, std::string{where},
              std::string{name} + " is " + std::to_string(value) + "; it must be positive and finite");
}

/// Parameter counts are computed in double first, so that no product of sizes can overflow.
inline result<void> check_count(std::string_view where, double parameters) {
  constexpr double most = 1099511627776.0;  // 2^40
  if (parameters <= most) return {};
  return fail(errc::too_large, std::string{where},
              "these sizes make about " + std::to_string(parameters / 1e9) +
                  " billion parameters; this library stops at 2^40: reduce layers, width or vocabulary");
}

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_OPTIONS_HPP

// ---- causeway/nn/language_model.hpp ----
#ifndef CAUSEWAY_NN_LANGUAGE_MODEL_HPP
#define CAUSEWAY_NN_LANGUAGE_MODEL_HPP

// A decoder-only language model: an embedding, a row of blocks, an output layer. A family (GPT-2, Llama) says which
// parameters there are and what a block computes; everything else is here: training passes, evaluation, the cut into
// stages, bf16 copies, initial values.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// Blocks [first, last) of a model. The part that starts at 0 has the embedding too, the one that ends at the number of
/// blocks the output layer; every part has at least one block.
struct block_range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// One micro-batch on its way through one stage, between its forward and its backward.
struct stage_pass {
  autograd::variable input;   ///< what came from the stage before; empty in the first
  autograd::variable output;  ///< what the next stage gets, [batch·T, width] f32; empty in the last
  double loss = 0.0;          ///< the sum of token losses, in the last stage
};

/// See the head of this file. Movable; one thread at a time.
template <class Family, class BackendType = kernels::cpu_backend>
  requires kernels::Backend<BackendType>
class language_model {
 public:
  using family_type = Family;
  using options_type = typename Family::options_type;
  using backend_type = BackendType;
  using tape_type = autograd::tape<BackendType>;

  /// Checks the options, reserves parameters and gradients (8 bytes per parameter, 10 in bf16 mode) and initialises them
  /// with seed 0. Errors say which option is wrong and what would work.
  [[nodiscard]] static result<language_model> create(const options_type& options, BackendType backend = BackendType{}) {
    CAUSEWAY_TRY(Family::validate(options));
    try {
      language_model model{options, std::move(backend)};
      model.initialize(0);
      return model;
    } catch (const std::bad_alloc&) {
      return fail(errc::out_of_memory, std::string{Family::name},
                  "no memory for the parameters: reduce layers, width or vocabulary");
    }
  }

  [[nodiscard]] const options_type& options() const noexcept { return family().options(); }
  [[nodiscard]] std::int64_t context_length() const noexcept { return options().context; }
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return options().vocabulary; }
  [[nodiscard]] std::int64_t width() const noexcept { return options().width; }
  [[nodiscard]] std::int64_t blocks() const noexcept { return options().layers; }
  [[nodiscard]] parameter_store& parameters() noexcept { return store(); }
  [[nodiscard]] BackendType& backend() noexcept { return engine_->backend; }
  /// The pool that activations come from, for its statistics.
  [[nodiscard]] buffer_pool& activation_memory() noexcept { return engine_->memory; }

  /// Equal on peers whose parameters mean the same: family, shape, vocabulary, tie and what else changes the function.
  /// Threads, precision and recomputation do not matter.
  [[nodiscard]] std::uint64_t config_hash() const noexcept {
    hasher h;
    h.add_value(hash_text(Family::name));
    family().hash_into(h);
    return h.add_value(store().layout_hash()).finish();
  }

  /// Fresh parameters, a function of (seed, segment, row): the same on every machine and for any number of threads.
  void initialize(std::uint64_t seed) {
    fill_initial(backend().pool(), store(), family().initial(), seed);
    store().touch();
  }

  /// Adds the gradient of grad_scale · Σ loss to `parameters().gradients()` and returns Σ loss over the tokens.
  /// inputs and targets hold batch·T tokens, sequence after sequence, T at most the context length. The same
  /// dropout_stream gives the same masks.
  [[nodiscard]] result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                                std::int64_t batch, float grad_scale, std::uint64_t dropout_stream) {
    tape_type& t = engine_->tape;
    const micro_batch b{inputs, targets, batch, grad_scale, dropout_stream};
    CAUSEWAY_ASSIGN(stage_pass all, forward_stage(t, {0, blocks()}, b));
    CAUSEWAY_TRY(backward_stage(t, all));
    return all.loss;
  }

  /// Σ loss over the tokens; no gradients, no dropout.
  [[nodiscard]] result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                        std::int64_t batch) {
    const micro_batch b{inputs, targets, batch, 0.0F, 0};
    CAUSEWAY_TRY(check_stage(b, {0, blocks()}, {}));
    return guarded([&](tape_type& t) {
      const auto p = prepare(b, false);
      return loss_of(t, p, run_blocks(t, p, {0, blocks()}, family().embed(t, p, b.inputs)), b);
    });
  }

  /// Scores of the token that follows `tokens` (1 to context length of them) into `out`, one for each of the vocabulary.
  [[nodiscard]] result<void> next_token_logits(std::span<const std::int32_t> tokens, std::span<float> out) {
    const micro_batch b{tokens, {}, 1, 0.0F, 0};
    CAUSEWAY_TRY(check_inputs(limits(), b));
    if (static_cast<std::int64_t>(out.size()) != vocabulary()) {
      return fail(errc::invalid_argument, std::string{Family::name} + " logits",
                  "room for " + std::to_string(out.size()) + " numbers; it must be the vocabulary, " +
                      std::to_string(vocabulary()));
    }
    CAUSEWAY_TRY(guarded([&](tape_type& t) {
      const auto p = prepare(b, false);
      const auto x = run_blocks(t, p, {0, blocks()}, family().embed(t, p, tokens));
      const tensor last = tensor::borrow(x.value.template data<float>() + (p.T - 1) * width(), {1, width()});
      write_logits(p, family().finish(t, p, {last}).value, out);
      return 0.0;
    }));
    return {};
  }

  /// A tape of its own for a micro-batch that waits between forward and backward, as in a pipeline. Must not outlive the
  /// model.
  [[nodiscard]] tape_type make_tape() { return tape_type{engine_->backend, engine_->memory}; }

  /// The forward pass through blocks `r`. `boundary` is the output of the stage before, [batch·T, width] f32, and must stay
  /// valid until `backward_stage`; it is ignored in the first stage. The first stage reads b.inputs, the last b.targets;
  /// all need their number. Cost: what the blocks compute; the boundary is 4·batch·T·width bytes.
  [[nodiscard]] result<stage_pass> forward_stage(tape_type& t, block_range r, const micro_batch& b, tensor boundary = {}) {
    CAUSEWAY_TRY(check_stage(b, r, boundary));
    stage_pass s;
    CAUSEWAY_TRY(guarded(t, true, [&] {
      const auto p = prepare(b, true);
      if (r.first > 0) s.input = t.leaf(std::move(boundary));
      autograd::variable x = r.first > 0 ? s.input : family().embed(t, p, b.inputs);
      x = run_blocks(t, p, r, std::move(x));
      if (r.last == blocks()) {
        s.loss = loss_of(t, p, x, b);
      } else {
        s.output = std::move(x);
      }
    }));
    return s;
  }

  /// The backward pass of `forward_stage`: adds to the parameters' gradients and returns the gradient of the stage's input,
  /// empty in the first stage. `d_output` is what the next stage returned; empty in the last stage. Clears the tape.
  [[nodiscard]] result<tensor> backward_stage(tape_type& t, const stage_pass& s, tensor d_output = {}) {
    tensor d_input;
    CAUSEWAY_TRY(guarded(t, true, [&] {
      if (d_output) t.contribute(s.output.slot, std::move(d_output));
      t.backward();
      d_input = t.take(s.input.slot);
    }));
    t.clear();
    return d_input;
  }

  /// Bytes that training with micro-batches of `batch` full contexts needs, without optimizer state.
  [[nodiscard]] nn::memory_estimate memory_estimate(std::int64_t batch) const noexcept {
    const auto& o = options();
    model_sizes s;
    s.rows = batch * o.context, s.width = o.width, s.layers = o.layers, s.vocabulary = o.vocabulary;
    s.parameters = store().length();
    s.low = o.precision == precision::bf16, s.recompute = o.recompute;
    return estimate_memory(s, family().activations(s.rows, s.low ? 2 : 4));
  }

 private:
  // Everything, in one place that stays when the model moves: tapes point into it.
  struct engine {
    engine(const options_type& options, BackendType b) : backend{std::move(b)}, family{options, store} {
      store.allocate();
      if (options.precision == precision::bf16) low = aligned_buffer<bf16>{static_cast<std::size_t>(store.length())};
    }
    BackendType backend;
    parameter_store store;
    Family family;
    aligned_buffer<bf16> low;
    std::uint64_t low_version = 0;
    buffer_pool memory;
    tape_type tape{backend, memory};
  };

  language_model(const options_type& options, BackendType backend)
      : engine_{std::make_unique<engine>(options, std::move(backend))} {}

  [[nodiscard]] const Family& family() const noexcept { return engine_->family; }
  [[nodiscard]] parameter_store& store() const noexcept { return engine_->store; }

  [[nodiscard]] pass<BackendType> prepare(const micro_batch& b, bool training) {
    refresh_low();
    const std::int64_t T = static_cast<std::int64_t>(b.inputs.size()) / b.batch;
    return {&store(), engine_->low.data(), b.batch, T, b.dropout_stream, training ? family().dropout() : 0.0F};
  }

  [[nodiscard]] autograd::variable run_blocks(tape_type& t, const pass<BackendType>& p, block_range r,
                                              autograd::variable x) {
    for (auto i = static_cast<std::size_t>(r.first); i < static_cast<std::size_t>(r.last); ++i) {
      const auto block = [f = &family(), p, i](tape_type& on, const autograd::variable& v) {
        return f->block(on, p, i, v);
      };
      x = options().recompute ? autograd::checkpoint(t, x, block) : block(t, x);
    }
    return x;
  }

  [[nodiscard]] double loss_of(tape_type& t, const pass<BackendType>& p, const autograd::variable& x,
                               const micro_batch& b) {
    return autograd::cross_entropy(t, family().finish(t, p, x), p[family().head()], b.targets, b.grad_scale);
  }

  void write_logits(const pass<BackendType>& p, const tensor& x, std::span<float> out) {
    autograd::detail::with_activation_type(x.type(), [&]<class Act>() {
      kernels::gemm_args<Act, float> args;
      args.transpose_b = true;
      args.m = 1, args.n = vocabulary(), args.k = width();
      args.a = x.template data<Act>(), args.lda = args.k;
      args.b = p[family().head()].template data<Act>(), args.ldb = args.k;
      args.c = out.data(), args.ldc = args.n;
      backend().gemm().multiply(backend().pool(), backend().memory(), args);
    });
  }

  /// Makes the bf16 copies of the weights anew if the parameters changed since.
  void refresh_low() {
    engine& e = *engine_;
    if (e.low.size() == 0 || e.low_version == e.store.version()) return;
    for (std::size_t i = 0; i < store().segments().size(); ++i) {
      const auto& s = store().segments()[i];
      if (s.kind != parameter_kind::matrix && i != family().head()) continue;
      kernels::convert(backend().pool(), store().value(i), e.low.data() + s.offset, s.size());
    }
    e.low_version = e.store.version();
  }

  template <class F>
  [[nodiscard]] result<void> guarded(tape_type& t, bool recording, F&& f) {
    try {
      const autograd::recording_scope scope{t, recording};
      f();
      return {};
    } catch (const std::bad_alloc&) {
      t.clear();
      return fail(errc::out_of_memory, std::string{Family::name},
                  "no memory for the activations: use a smaller micro-batch, or recompute = true");
    }
  }
  template <class F>
  [[nodiscard]] result<double> guarded(F&& f) {
    double value = 0.0;
    CAUSEWAY_TRY(guarded(engine_->tape, false, [&] { value = f(engine_->tape); }));
    return value;
  }

  [[nodiscard]] token_limits limits() const noexcept { return {Family::name, context_length(), vocabulary()}; }

  [[nodiscard]] result<void> check_stage(const micro_batch& b, block_range r, const tensor& boundary) const {
    CAUSEWAY_EXPECT(r.first >= 0 && r.first < r.last && r.last <= blocks());
    CAUSEWAY_TRY(check_inputs(limits(), b));
    if (r.last == blocks()) CAUSEWAY_TRY(check_targets(limits(), b));
    if (r.first > 0) CAUSEWAY_TRY(check_boundary(limits(), b, boundary, width()));
    return {};
  }

  std::unique_ptr<engine> engine_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_LANGUAGE_MODEL_HPP

// ---- causeway/nn/gpt.hpp ----
#ifndef CAUSEWAY_NN_GPT_HPP
#define CAUSEWAY_NN_GPT_HPP

// The GPT-2 family (Radford et al. 2019): learned positions, layer norm before each part, biases, GELU in its tanh form,
// output layer tied to the token table. Parameter names are Hugging Face's; weights are stored [outputs, inputs], which is
// the transpose of what its Conv1D keeps.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// The defaults are GPT-2 small (124 M parameters).
struct gpt_options {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;
  std::int64_t vocabulary = 50257;
  std::int64_t mlp_ratio = 4;  ///< hidden size of the feed-forward part over width
  float dropout = 0.0F;        ///< after the embedding and after both parts of a block; none on attention weights
  float epsilon = 1e-5F;
  bool tie = true;  ///< the output layer is the token table
  nn::precision precision = nn::precision::f32;
  bool recompute = false;  ///< keep only the input of each block: a third more compute, a fraction of the activations
};

/// GPT-2 as `language_model` uses it: which parameters, which computation.
class gpt_family {
 public:
  using options_type = gpt_options;
  static constexpr std::string_view name = "gpt2";

  [[nodiscard]] static result<void> validate(const gpt_options& o) {
    CAUSEWAY_TRY(detail::check_sizes(name, {{"layers", o.layers, 1 << 16},
                                            {"heads", o.heads, 1 << 16},
                                            {"width", o.width, 1 << 20},
                                            {"context", o.context, 1 << 24},
                                            {"vocabulary", o.vocabulary, (std::int64_t{1} << 31U) - 1},
                                            {"mlp_ratio", o.mlp_ratio, 64}}));
    CAUSEWAY_TRY(detail::check_divides(name, "heads", o.heads, "width", o.width));
    CAUSEWAY_TRY(detail::check_fraction(name, "dropout", o.dropout));
    CAUSEWAY_TRY(detail::check_positive(name, "epsilon", o.epsilon));
    const auto c = static_cast<double>(o.width);
    const double block = static_cast<double>(4 + 2 * o.mlp_ratio) * c * c;
    const double tables = static_cast<double>(o.vocabulary) * (o.tie ? 1.0 : 2.0) + static_cast<double>(o.context);
    return detail::check_count(name, static_cast<double>(o.layers) * block + tables * c);
  }

  /// Declares the parameters in `store`, which is empty and outlives the family.
  gpt_family(const gpt_options& o, parameter_store& store) : options_{o} {
    declaration d{store};
    tokens_ = d.table("wte.weight", o.vocabulary, o.width);
    positions_ = d.table("wpe.weight", o.context, o.width);
    for (std::int64_t i = 0; i < o.layers; ++i) declare_block(d, i);
    d.in_block(o.layers);
    final_norm_ = declare_norm(d, "ln_f");
    head_ = o.tie ? tokens_ : d.table("lm_head.weight", o.vocabulary, o.width);
    initial_ = std::move(d).take_initial();
  }

  [[nodiscard]] const gpt_options& options() const noexcept { return options_; }
  [[nodiscard]] float dropout() const noexcept { return options_.dropout; }
  [[nodiscard]] std::span<const initial_distribution> initial() const noexcept { return initial_; }
  /// The segment of the output layer, [vocabulary, width].
  [[nodiscard]] std::size_t head() const noexcept { return head_; }

  void hash_into(hasher& h) const noexcept {
    const auto& o = options_;
    h.add_value(o.layers).add_value(o.heads).add_value(o.width).add_value(o.context).add_value(o.vocabulary);
    h.add_value(o.mlp_ratio).add_value(o.dropout).add_value(o.epsilon).add_value(static_cast<std::uint8_t>(o.tie));
  }

  /// Tokens to the residual stream, [batch·T, width].
  template <class Backend>
  [[nodiscard]] autograd::variable embed(autograd::tape<Backend>& t, const pass<Backend>& p,
                                         std::span<const std::int32_t> tokens) const {
    return p.drop(t, autograd::embedding(t, tokens, p[tokens_], p[positions_], p.batch), 0);
  }

  /// Block i on the residual stream: x += attention(norm(x)), then x += mlp(norm(x)).
  template <class Backend>
  [[nodiscard]] autograd::variable block(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t i,
                                         const autograd::variable& x) const {
    const block_segments& b = blocks_[i];
    const autograd::head_layout layout{p.batch, p.T, options_.heads, options_.heads, options_.width / options_.heads};
    const auto qkv = autograd::linear(t, norm(t, p, b.norm1, x), p[b.qkv], p[b.qkv + 1]);
    const auto x1 =
        p.add_linear(t, x, autograd::attention(t, qkv, layout), p[b.projection], p[b.projection + 1], 2 * i + 1);
    const auto hidden = autograd::linear_gelu(t, norm(t, p, b.norm2, x1), p[b.up], p[b.up + 1]);
    return p.add_linear(t, x1, hidden, p[b.down], p[b.down + 1], 2 * i + 2);
  }

  /// What the output layer multiplies.
  template <class Backend>
  [[nodiscard]] autograd::variable finish(autograd::tape<Backend>& t, const pass<Backend>& p,
                                          const autograd::variable& x) const {
    return norm(t, p, final_norm_, x);
  }

  /// What a block keeps for `rows` tokens in operands of `size` bytes.
  [[nodiscard]] activation_bytes activations(std::int64_t rows, std::size_t size) const noexcept {
    const auto bytes = [rows](std::int64_t columns, std::size_t each) { return pooled_bytes(rows, columns, each); };
    const std::int64_t c = options_.width;
    const std::size_t sums = 4 * bytes(1, 4) + bytes(options_.heads, 4);
    return {2 * bytes(c, 4) + 3 * bytes(c, size) + bytes(3 * c, size) + 2 * bytes(options_.mlp_ratio * c, size) + sums,
            bytes(3 * c, size)};
  }

 private:
  // A linear map or a norm takes two segments: weight, bias.
  struct block_segments {
    std::size_t norm1 = 0, qkv = 0, projection = 0, norm2 = 0, up = 0, down = 0;
  };

  void declare_block(declaration& d, std::int64_t i) {
    const std::string p = "h." + std::to_string(i) + ".";
    const std::int64_t c = options_.width;
    const std::int64_t hidden = options_.mlp_ratio * c;
    const float residual = residual_deviation(options_.layers);
    d.in_block(i);
    block_segments b;
    b.norm1 = declare_norm(d, p + "ln_1");
    b.qkv = declare_linear(d, p + "attn.c_attn", 3 * c, c, initial_deviation);
    b.projection = declare_linear(d, p + "attn.c_proj", c, c, residual);
    b.norm2 = declare_norm(d, p + "ln_2");
    b.up = declare_linear(d, p + "mlp.c_fc", hidden, c, initial_deviation);
    b.down = declare_linear(d, p + "mlp.c_proj", c, hidden, residual);
    blocks_.push_back(b);
  }
  std::size_t declare_norm(declaration& d, const std::string& prefix) const {
    const std::size_t gain = d.vector(prefix + ".weight", options_.width, 1.0F);
    d.vector(prefix + ".bias", options_.width, 0.0F);
    return gain;
  }
  static std::size_t declare_linear(declaration& d, const std::string& prefix, std::int64_t outputs, std::int64_t inputs,
                                    float deviation) {
    const std::size_t weight = d.matrix(prefix + ".weight", outputs, inputs, deviation);
    d.vector(prefix + ".bias", outputs, 0.0F);
    return weight;
  }

  template <class Backend>
  [[nodiscard]] autograd::variable norm(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t segment,
                                        const autograd::variable& x) const {
    return autograd::layer_norm(t, x, p[segment], p[segment + 1], options_.epsilon, p.type());
  }

  gpt_options options_;
  std::vector<initial_distribution> initial_;
  std::vector<block_segments> blocks_;
  std::size_t tokens_ = 0;
  std::size_t positions_ = 0;
  std::size_t final_norm_ = 0;
  std::size_t head_ = 0;
};

template <class Backend = kernels::cpu_backend>
using basic_gpt = language_model<gpt_family, Backend>;

/// GPT-2 on the CPU.
using gpt = basic_gpt<>;

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_GPT_HPP

// ---- causeway/nn/llama.hpp ----
#ifndef CAUSEWAY_NN_LLAMA_HPP
#define CAUSEWAY_NN_LLAMA_HPP

// The Llama family (Touvron et al. 2023): RMS norm, rotary positions in Hugging Face's half-rotation layout, grouped-query
// attention, SwiGLU, no biases. Names follow Hugging Face; q, k and v are one matrix (rows q, then k, then v), and so are
// gate and up, because one large product beats three small ones.

namespace causeway::inline CAUSEWAY_ABI::nn {

/// The defaults make a model of GPT-2 small's size.
struct llama_options {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 4;  ///< heads that share keys and values; `heads` for plain multi-head attention
  std::int64_t width = 768;
  std::int64_t hidden = 2048;  ///< of the feed-forward part
  std::int64_t context = 1024;
  std::int64_t vocabulary = 32000;
  float theta = 10000.0F;  ///< base of the rotary wavelengths
  float epsilon = 1e-5F;
  bool tie = false;  ///< the output layer is the token table
  nn::precision precision = nn::precision::f32;
  bool recompute = false;  ///< keep only the input of each block: a third more compute, a fraction of the activations
};

/// Llama as `language_model` uses it: which parameters, which computation.
class llama_family {
 public:
  using options_type = llama_options;
  static constexpr std::string_view name = "llama";

  [[nodiscard]] static result<void> validate(const llama_options& o) {
    CAUSEWAY_TRY(detail::check_sizes(name, {{"layers", o.layers, 1 << 16},
                                            {"heads", o.heads, 1 << 16},
                                            {"kv_heads", o.kv_heads, 1 << 16},
                                            {"width", o.width, 1 << 20},
                                            {"hidden", o.hidden, 1 << 24},
                                            {"context", o.context, 1 << 24},
                                            {"vocabulary", o.vocabulary, (std::int64_t{1} << 31U) - 1}}));
    CAUSEWAY_TRY(detail::check_divides(name, "heads", o.heads, "width", o.width));
    CAUSEWAY_TRY(detail::check_divides(name, "kv_heads", o.kv_heads, "heads", o.heads));
    if (o.width / o.heads % 2 != 0) {
      return fail(errc::invalid_argument, std::string{name},
                  "heads of size " + std::to_string(o.width / o.heads) + " (width " + std::to_string(o.width) + " over " +
                      std::to_string(o.heads) + " heads); rotary positions turn pairs, so the size must be even");
    }
    CAUSEWAY_TRY(detail::check_positive(name, "epsilon", o.epsilon));
    CAUSEWAY_TRY(detail::check_positive(name, "theta", o.theta));
    const auto c = static_cast<double>(o.width);
    const double kv = 2.0 * static_cast<double>(o.kv_heads) / static_cast<double>(o.heads);
    const double block = (2.0 + kv) * c * c + 3.0 * c * static_cast<double>(o.hidden);
    const double tables = static_cast<double>(o.vocabulary) * (o.tie ? 1.0 : 2.0);
    return detail::check_count(name, static_cast<double>(o.layers) * block + tables * c);
  }

  /// Declares the parameters in `store`, which is empty and outlives the family.
  llama_family(const llama_options& o, parameter_store& store)
      : options_{o}, rotary_{o.context, head_size(), static_cast<double>(o.theta)} {
    declaration d{store};
    tokens_ = d.table("model.embed_tokens.weight", o.vocabulary, o.width);
    for (std::int64_t i = 0; i < o.layers; ++i) declare_block(d, i);
    d.in_block(o.layers);
    final_norm_ = d.vector("model.norm.weight", o.width, 1.0F);
    head_ = o.tie ? tokens_ : d.table("lm_head.weight", o.vocabulary, o.width);
    initial_ = std::move(d).take_initial();
  }

  [[nodiscard]] const llama_options& options() const noexcept { return options_; }
  [[nodiscard]] float dropout() const noexcept { return 0.0F; }
  [[nodiscard]] std::span<const initial_distribution> initial() const noexcept { return initial_; }
  /// The segment of the output layer, [vocabulary, width].
  [[nodiscard]] std::size_t head() const noexcept { return head_; }

  void hash_into(hasher& h) const noexcept {
    const auto& o = options_;
    h.add_value(o.layers).add_value(o.heads).add_value(o.kv_heads).add_value(o.width).add_value(o.hidden);
    h.add_value(o.context).add_value(o.vocabulary).add_value(o.theta).add_value(o.epsilon);
    h.add_value(static_cast<std::uint8_t>(o.tie));
  }

  /// Tokens to the residual stream, [batch·T, width].
  template <class Backend>
  [[nodiscard]] autograd::variable embed(autograd::tape<Backend>& t, const pass<Backend>& p,
                                         std::span<const std::int32_t> tokens) const {
    return autograd::embedding(t, tokens, p[tokens_], {}, p.batch);
  }

  /// Block i on the residual stream: x += attention(norm(x)), then x += mlp(norm(x)).
  template <class Backend>
  [[nodiscard]] autograd::variable block(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t i,
                                         const autograd::variable& x) const {
    const block_segments& b = blocks_[i];
    const autograd::head_layout layout{p.batch, p.T, options_.heads, options_.kv_heads, head_size()};
    auto qkv = autograd::rotary(t, autograd::linear(t, norm(t, p, b.norm1, x), p[b.qkv]), rotary_, layout);
    const auto x1 = autograd::linear_to_residual(t, autograd::attention(t, qkv, layout), p[b.projection], {}, x);
    const auto hidden = autograd::swiglu(t, autograd::linear(t, norm(t, p, b.norm2, x1), p[b.gate_up]));
    return autograd::linear_to_residual(t, hidden, p[b.down], {}, x1);
  }

  /// What the output layer multiplies.
  template <class Backend>
  [[nodiscard]] autograd::variable finish(autograd::tape<Backend>& t, const pass<Backend>& p,
                                          const autograd::variable& x) const {
    return norm(t, p, final_norm_, x);
  }

  /// What a block keeps for `rows` tokens in operands of `size` bytes.
  [[nodiscard]] activation_bytes activations(std::int64_t rows, std::size_t size) const noexcept {
    const auto bytes = [rows](std::int64_t columns, std::size_t each) { return pooled_bytes(rows, columns, each); };
    const std::int64_t c = options_.width;
    const std::int64_t packed = c + 2 * options_.kv_heads * head_size();
    const std::size_t sums = 2 * bytes(1, 4) + bytes(options_.heads, 4);
    const std::size_t mlp = bytes(2 * options_.hidden, size) + bytes(options_.hidden, size);
    return {2 * bytes(c, 4) + 3 * bytes(c, size) + bytes(packed, size) + mlp + sums,
            bytes(packed, size) + bytes(2 * options_.hidden, size)};
  }

 private:
  struct block_segments {
    std::size_t norm1 = 0, qkv = 0, projection = 0, norm2 = 0, gate_up = 0, down = 0;
  };

  [[nodiscard]] std::int64_t head_size() const noexcept { return options_.width / options_.heads; }

  void declare_block(declaration& d, std::int64_t i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    const std::int64_t c = options_.width;
    const float residual = residual_deviation(options_.layers);
    d.in_block(i);
    block_segments b;
    b.norm1 = d.vector(p + "input_layernorm.weight", c, 1.0F);
    b.qkv = d.matrix(p + "self_attn.qkv_proj.weight", c + 2 * options_.kv_heads * head_size(), c);
    b.projection = d.matrix(p + "self_attn.o_proj.weight", c, c, residual);
    b.norm2 = d.vector(p + "post_attention_layernorm.weight", c, 1.0F);
    b.gate_up = d.matrix(p + "mlp.gate_up_proj.weight", 2 * options_.hidden, c);
    b.down = d.matrix(p + "mlp.down_proj.weight", c, options_.hidden, residual);
    blocks_.push_back(b);
  }

  template <class Backend>
  [[nodiscard]] autograd::variable norm(autograd::tape<Backend>& t, const pass<Backend>& p, std::size_t gain,
                                        const autograd::variable& x) const {
    return autograd::rms_norm(t, x, p[gain], options_.epsilon, p.type());
  }

  llama_options options_;
  kernels::rotary_table rotary_;
  std::vector<initial_distribution> initial_;
  std::vector<block_segments> blocks_;
  std::size_t tokens_ = 0;
  std::size_t final_norm_ = 0;
  std::size_t head_ = 0;
};

template <class Backend = kernels::cpu_backend>
using basic_llama = language_model<llama_family, Backend>;

/// Llama on the CPU.
using llama = basic_llama<>;

}  // namespace causeway::inline CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_LLAMA_HPP

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
  void commit_round();
};

}  // namespace causeway::inline CAUSEWAY_ABI::archetype

#endif  // CAUSEWAY_POLICY_ARCHETYPE_HPP

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
  commit,  ///< keep it
  retry,   ///< do the failed phase again; what was computed is kept
  abort,   ///< give up; the step's error goes to the caller
};

/// A communication policy: when peers talk and what they make of it.
struct comm_traits {
  peers tolerates = peers::fixed;  ///< whether it still works when peers come and go
  bool needs_global_step = false;  ///< whether all peers must finish the same step together
  bool identical_replicas = true;  ///< whether all peers hold the same parameters after each committed round
};

/// A parallelism policy: how a batch becomes gradients.
struct parallel_traits {
  bool staged = false;      ///< the model is cut into stages on several peers
  bool reroutes = false;    ///< a lost peer's work goes to another of its stage
  bool global_step = true;  ///< all peers finish the same step together
};

/// A fault policy: what a step is worth when somebody is slow, gone or lying.
struct fault_traits {
  peers produces = peers::fixed;  ///< whether peers may come and go under it
  bool refills_stage = false;     ///< it gives a lost peer's stage to somebody else
  bool retries = false;           ///< it may ask for a failed phase again; exchanges then keep their inputs
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_TRAITS_HPP

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

/// `start`: once, before the first step; parameters are equal on all peers. `before_inner_step`: gradients are ready.
/// `after_inner_step`: parameters have moved. `finish`: once, after the last step: bring the replicas together.
template <class P, class Context = archetype::context>
concept CommunicationPolicy = PolicyOf<P, comm_traits> && requires(P& p, Context& ctx) {
  { p.start(ctx) } -> std::same_as<result<void>>;
  { p.before_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.after_inner_step(ctx) } -> std::same_as<result<void>>;
  { p.finish(ctx) } -> std::same_as<result<void>>;
};

/// `forward_backward`: adds the gradient of the mean loss over the batch; gives that mean. Cuts the batch as it likes.
template <class P, class Context = archetype::context>
concept ParallelismPolicy = PolicyOf<P, parallel_traits> && requires(P& p, Context& ctx, const batch& b) {
  { p.forward_backward(ctx, b) } -> std::same_as<result<double>>;
};

/// `begin_step`: agree on who takes part. `end_step`: judge the attempt; called after a failed phase or a whole step.
template <class P, class Context = archetype::context>
concept FaultPolicy = PolicyOf<P, fault_traits> && requires(P& p, Context& ctx, const result<void>& outcome) {
  { p.begin_step(ctx) } -> std::same_as<result<void>>;
  { p.end_step(ctx, outcome) } -> std::same_as<verdict>;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_CONCEPTS_HPP

// ---- causeway/policy/pick.hpp ----
#ifndef CAUSEWAY_POLICY_PICK_HPP
#define CAUSEWAY_POLICY_PICK_HPP

// Sorts a pack of policies into a trainer's slots by what they are, so that users write them in any order and leave out
// what they do not care about.

#include <tuple>

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
};

struct unchecked {};

}  // namespace detail
}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_POLICY_RULES_HPP

// ---- causeway/comm/every_step.hpp ----
#ifndef CAUSEWAY_COMM_EVERY_STEP_HPP
#define CAUSEWAY_COMM_EVERY_STEP_HPP

// Synchronous data parallelism: gradients are averaged over all peers before every inner step. The baseline that every
// other communication policy is measured against.

namespace causeway::inline CAUSEWAY_ABI::comm {

/// g ← (1/n) Σ g_i before each inner step; all peers then take the same inner step and stay identical.
///
/// Cost per step: one exchange of P values through `Codec`, 2(n−1)/n · P · bytes-per-value sent and received by each peer.
/// A failed exchange leaves the gradients as they were where the fault policy can retry.
template <class Codec = compress::none>
class every_step {
 public:
  static constexpr std::string_view name = "every_step";
  static constexpr comm_traits traits{.needs_global_step = true};
  static constexpr std::uint32_t state_version = 1;

  explicit every_step(Codec codec = Codec{}) : codec_{std::move(codec)} {}

  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto& ctx) { return ctx.mean(codec_, ctx.gradients()); }
  result<void> after_inner_step(auto& ctx) {
    ctx.commit_round();
    return {};
  }
  result<void> finish(auto&) { return {}; }

  void serialize(auto&) {}

 private:
  Codec codec_;
};
static_assert(CommunicationPolicy<every_step<>>);

}  // namespace causeway::inline CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_EVERY_STEP_HPP

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
/// State: the anchor θ (P values) and the outer optimizer's. Cost per round: one exchange of P values through `Codec`,
/// 2(n−1)/n · P · bytes-per-value sent and received by each peer. A failed exchange changes nothing: Δ_m is computed anew
/// from θ and θ_m when the hook is called again. With H = 1, inner SGD, outer SGD(1) this is `every_step`: bit for bit with
/// sum_of_updates when the learning rate is a power of two (then scaling commutes with rounding).
template <class Outer = optim::nesterov, class Codec = compress::none>
class periodic {
 public:
  static constexpr std::string_view name = "periodic";
  static constexpr comm_traits traits{.tolerates = peers::elastic};
  static constexpr std::uint32_t state_version = 1;

  explicit periodic(periodic_options options = {}, Outer outer = Outer{}, Codec codec = Codec{})
      : options_{options}, outer_{std::move(outer)}, codec_{std::move(codec)} {}

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

  void serialize(auto& ar) { ar(since_, anchor_, updates_, outer_); }

  [[nodiscard]] std::uint32_t steps_since_exchange() const noexcept { return since_; }
  [[nodiscard]] const periodic_options& options() const noexcept { return options_; }

 private:
  result<void> outer_step(auto& ctx) {
    const auto local = ctx.parameters();
    const auto delta = ctx.gradients();  // free between inner steps, so it carries the pseudo-gradient
    if (options_.content == pseudo_gradient::sum_of_updates) {
      std::copy(updates_.begin(), updates_.end(), delta.begin());
    } else {
      ctx.pool().for_range(static_cast<std::int64_t>(local.size()), 1 << 14, [&](index_range part) {
        for (auto i = static_cast<std::size_t>(part.begin); i < static_cast<std::size_t>(part.end); ++i) {
          delta[i] = anchor_[i] - local[i];
        }
      });
    }
    CAUSEWAY_TRY(ctx.mean(codec_, delta));

    parameter_view view = ctx.view();
    view.values = anchor_;
    view.gradients = delta;
    outer_.step(ctx.pool(), view, {.learning_rate = options_.outer_learning_rate});
    std::copy(anchor_.begin(), anchor_.end(), local.begin());
    std::fill(updates_.begin(), updates_.end(), 0.0F);
    since_ = 0;
    ctx.parameters_changed();
    ctx.commit_round();
    return {};
  }

  periodic_options options_;
  Outer outer_;
  Codec codec_;
  std::vector<float> anchor_;
  std::vector<float> updates_;
  std::uint32_t since_ = 0;  ///< inner steps since the last exchange
};
static_assert(CommunicationPolicy<periodic<>>);

}  // namespace causeway::inline CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_PERIODIC_HPP

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
  verdict end_step(auto&, const result<void>& outcome) { return outcome ? verdict::commit : verdict::abort; }

  void serialize(auto&) {}
};
static_assert(FaultPolicy<fail_stop>);

}  // namespace causeway::inline CAUSEWAY_ABI::fault

#endif  // CAUSEWAY_FAULT_FAIL_STOP_HPP

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

  result<double> forward_backward(auto& ctx, const batch& b) {
    const std::int64_t pieces = options_.micro_batches;
    if (pieces < 1 || b.sequences % pieces != 0) {
      return fail(errc::invalid_argument, "data_parallel",
                  "a batch of " + std::to_string(b.sequences) + " sequences cannot be cut into " + std::to_string(pieces) +
                      " equal micro-batches; choose a divisor");
    }
    const std::int64_t count = b.sequences / pieces;
    const float scale = 1.0F / static_cast<float>(b.tokens());
    double loss = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      CAUSEWAY_ASSIGN(const double sum, ctx.forward_backward(b.slice(i * count, count), scale));
      loss += sum;
    }
    return loss / static_cast<double>(b.tokens());
  }

  void serialize(auto&) {}

 private:
  data_parallel_options options_;
};
static_assert(ParallelismPolicy<data_parallel>);

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_DATA_PARALLEL_HPP

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
/// - `backend().pool()`: the threads it computes on.
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

#include <numeric>

namespace causeway::inline CAUSEWAY_ABI {

/// Where a peer runs: its network, its clock, and where its messages go. `exchange` says how sums travel (deadline, chunks,
/// algorithm) and must be equal on all peers: collective::tuned_for_streams makes it for links of several streams. Its pool
/// and workspace are the context's to set.
struct environment {
  net::any_transport transport{};
  any_clock clock{};
  log_sink log{};
  collective::collective_options exchange{};
};

struct trainer_options {
  std::uint64_t seed = 1;  ///< of everything random in the run; equal on all peers
  optim::schedule learning_rate = optim::constant{3e-4F};
  float clip_norm = 1.0F;        ///< of the whole gradient; 0 = no clipping
  std::uint32_t hash_every = 1;  ///< rounds between full hashes of the committed parameters; 0 = never
};

template <Model M, optim::Optimizer Inner>
class training_context {
 public:
  training_context(M model, Inner inner, environment env, trainer_options options, bool keeps_inputs)
      : model_{std::move(model)},
        inner_{std::move(inner)},
        env_{std::move(env)},
        options_{std::move(options)},
        keeps_inputs_{keeps_inputs},
        random_{options_.seed, mix(streams::own, env_.transport.self())},
        shared_random_{options_.seed, mix(streams::shared)} {
    inner_.reset(model_.parameters().length());
  }

  // ---- who and when -------------------------------------------------------------------------------------------------

  /// This peer, 0 to peers()-1.
  [[nodiscard]] net::peer_index self() const { return env_.transport.self(); }
  [[nodiscard]] std::uint32_t peers() const { return env_.transport.size(); }
  /// Inner steps committed by this peer.
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }
  /// Outer rounds committed by this peer.
  [[nodiscard]] std::uint64_t round() const noexcept { return round_; }
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

  /// Adds `scale` times the gradient of the summed token losses of `b`; gives that sum. Dropout masks are a function of
  /// (seed, peer, step, micro-batch).
  result<double> forward_backward(const batch& b, float scale) {
    const std::uint64_t stream = mix(step_, self(), micro_batch_++);
    return model_.forward_backward(b.inputs, b.targets, b.sequences, scale, stream);
  }

  // ---- doors --------------------------------------------------------------------------------------------------------

  [[nodiscard]] thread_pool& pool() { return model_.backend().pool(); }
  [[nodiscard]] any_clock& clock() noexcept { return env_.clock; }
  [[nodiscard]] net::any_transport& transport() noexcept { return env_.transport; }
  [[nodiscard]] const log_sink& log() const noexcept { return env_.log; }
  /// Differs from peer to peer.
  [[nodiscard]] rng& random() noexcept { return random_; }
  /// The same sequence on all peers, as long as all draw equally often.
  [[nodiscard]] rng& shared_random() noexcept { return shared_random_; }

  // ---- exchanges: all peers must take part, in the same round ----------------------------------------------------------

  /// data ← mean over all peers, through `codec`, in place; bit-identical everywhere. Nothing is sent by a peer alone.
  /// Bytes: 2(n−1)/n · the encoded size. On an error the data is garbage unless keeps_inputs().
  template <class Codec>
  result<void> mean(const Codec& codec, std::span<float> data) {
    if (peers() == 1) return {};
    if (keeps_inputs_) kept_.assign(data.begin(), data.end());
    auto outcome = collective::exchange_mean(env_.transport, exchange_id(collective::channels::updates), codec, data,
                                             exchange_options());
    if (!outcome && keeps_inputs_) std::copy(kept_.begin(), kept_.end(), data.begin());
    return outcome;
  }

  /// Both peers: data ← (theirs + ours) / 2. `other` must call it with us in the same round. Bytes: 4 per value each way.
  result<void> average_with(net::peer_index other, std::span<float> data) {
    received_.resize(data.size());
    net::message_id id{.channel = collective::channels::parameters, .step = round_};
    const auto inward = env_.transport.receive(other, id, std::as_writable_bytes(std::span{received_}));
    const auto outward = env_.transport.send(other, id, std::as_bytes(data));
    const auto sent = env_.transport.wait(outward, no_deadline);
    const auto got = env_.transport.wait(inward, no_deadline);
    if (!sent) return sent.error();
    if (!got) return got.error();
    if (*got != data.size_bytes()) {
      return fail(errc::protocol, "peer " + std::to_string(other),
                  "sent parameters of another size; check that it trains "
                  "the same model");
    }
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = 0.5F * (data[i] + received_[i]);
    return {};
  }

  /// This peer's partner when all peers are paired at random; none for the one left over. A function of the seed and the
  /// round: the same pairs on all peers, and again when asked again.
  std::optional<net::peer_index> random_partner() {
    std::vector<net::peer_index> order(peers());
    std::iota(order.begin(), order.end(), 0U);
    rng draw{options_.seed, mix(streams::pairs, round_)};
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
    for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
      if (order[i] == self()) return order[i + 1];
      if (order[i + 1] == self()) return order[i];
    }
    return std::nullopt;
  }

  /// The parameters as they stand are what all peers hold now: the next exchange will be based on them.
  void commit_round() {
    ++round_;
    const bool full = options_.hash_every != 0 && round_ % options_.hash_every == 0;
    hash_ = full ? hasher{}.add_values(std::span<const float>{parameters()}).finish() : 0;
    parent_ = mix(parent_, hash_, round_);
  }

  // ---- for the trainer -------------------------------------------------------------------------------------------------

  /// Checks that all peers start from the same parameters. One hash from and to everybody.
  result<void> agree_on_start() {
    parent_ = hasher{}.add_values(std::span<const float>{parameters()}).finish();
    return verify_parent(
        "starts from other parameters; all peers need the same seed, the same options and checkpoints of "
        "the same round");
  }

  /// Clears gradients before a step.
  void begin_compute() {
    micro_batch_ = 0;
    const auto g = gradients();
    kernels::zero(pool(), g.data(), static_cast<std::int64_t>(g.size()));
  }

  /// Clips, and lets the inner optimizer move the parameters. errc::non_finite leaves them as they were.
  result<void> inner_step() {
    gradient_norm_ = optim::global_norm(pool(), gradients());
    CAUSEWAY_TRY(optim::check_norm(gradient_norm_, "step " + std::to_string(step_ + 1)));
    rate_ = options_.learning_rate.at(step_);
    inner_.step(pool(), view(),
                {.learning_rate = rate_,
                 .gradient_scale = optim::clip_scale(gradient_norm_, options_.clip_norm),
                 .update_sum = updates_});
    parameters_changed();
    return {};
  }

  void commit_step() noexcept { ++step_; }
  [[nodiscard]] float gradient_norm() const noexcept { return gradient_norm_; }
  [[nodiscard]] float learning_rate() const noexcept { return rate_; }
  [[nodiscard]] std::uint64_t state_hash() const noexcept { return hash_; }
  /// Names the committed state that exchanges are based on.
  [[nodiscard]] std::uint64_t parent() const noexcept { return parent_; }
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

  [[nodiscard]] net::message_id exchange_id(std::uint32_t channel) const {
    return {.channel = channel, .epoch = 0, .step = round_, .parent = parent_};
  }

  [[nodiscard]] collective::collective_options exchange_options() {
    collective::collective_options options = env_.exchange;
    options.pool = &pool();
    options.workspace = &workspace_;
    return options;
  }

  result<void> verify_parent(const std::string& complaint) {
    if (peers() == 1) return {};
    std::vector<std::uint64_t> hashes(peers());
    CAUSEWAY_TRY(collective::all_gather(env_.transport, {.channel = collective::channels::state, .step = round_},
                                        std::as_bytes(std::span{&parent_, 1}), std::as_writable_bytes(std::span{hashes}),
                                        exchange_options()));
    for (std::uint32_t peer = 0; peer < peers(); ++peer) {
      if (hashes[peer] != parent_) return fail(errc::diverged, "peer " + std::to_string(peer), complaint);
    }
    return {};
  }

  M model_;
  Inner inner_;
  environment env_;
  trainer_options options_;
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

  std::span<float> updates_;
  std::vector<float> kept_;
  std::vector<float> received_;
  collective::collective_workspace workspace_;
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CONTEXT_HPP

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
  bool committed_round = false;  ///< whether an outer round was committed in this step
  std::uint64_t state_hash = 0;  ///< of the committed parameters, where one was made in this step; else 0
};

/// Called after every committed step.
using step_observer = std::function<void(const step_report&)>;

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_OBSERVER_HPP

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
      if (!restored_) CAUSEWAY_TRY(ctx_.agree_on_start());
      return comm_.start(ctx_);
    }
    return {};
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
    if constexpr (valid) return comm_.finish(ctx_);
    return {};
  }

  /// Mean loss in nats per token on the current parameters.
  result<double> evaluate(const batch& b) {
    CAUSEWAY_ASSIGN(const double sum, ctx_.model().evaluate(b.inputs, b.targets, b.sequences));
    return sum / static_cast<double>(b.tokens());
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
    auto saved = static_cast<std::uint8_t>(phase_ == phase::after ? phase_ : phase::compute);
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

  enum class phase : std::uint8_t { compute, before, inner, after };

  // The fault policy judges after a failed phase and after the last one.
  result<step_report> judged_step(const batch& b) {
    const std::uint64_t round = ctx_.round();
    report_.compute_seconds = report_.exchange_seconds = 0;
    for (;;) {
      const result<void> outcome = advance(b);
      switch (fault_.end_step(ctx_, outcome)) {
        case verdict::commit: return committed(b, round);
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
      phase_ = phase::before;
    }
    if (phase_ == phase::before) {
      CAUSEWAY_TRY(timed(exchanged, [&] { return comm_.before_inner_step(ctx_); }));
      phase_ = phase::inner;
    }
    if (phase_ == phase::inner) {
      CAUSEWAY_TRY(ctx_.inner_step());
      phase_ = phase::after;
    }
    CAUSEWAY_TRY(timed(exchanged, [&] { return comm_.after_inner_step(ctx_); }));
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
  using type = trainer<M, Policies...>;
  detail::bag<Policies...> bag{std::move(policies)...};
  return type{std::move(model),
              std::move(env),
              std::move(options),
              bag.template take<detail::kind::inner, optim::adamw>(),
              bag.template take<detail::kind::comm, comm::periodic<>>(),
              bag.template take<detail::kind::parallel, parallel::data_parallel>(),
              bag.template take<detail::kind::fault, fault::fail_stop>()};
}

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_TRAINER_HPP

// ---- causeway/presets/local_updates.hpp ----
#ifndef CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP
#define CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP

// Published systems that train by local updates, as compositions: a type each, and the options of its paper.

namespace causeway::inline CAUSEWAY_ABI::presets {

/// Synchronous data parallelism.
using every_step = comm::every_step<>;

/// DiLoCo (Douillard et al. 2023): H = 500 inner AdamW steps, outer Nesterov with rate 0.7 and momentum 0.9.
using diloco = comm::periodic<optim::nesterov>;
inline constexpr comm::periodic_options diloco_options{.local_steps = 500, .outer_learning_rate = 0.7F};
inline constexpr optim::nesterov_options diloco_outer{.momentum = 0.9F};

/// Local SGD (Stich 2019): parameters are averaged every H steps.
using local_sgd = comm::periodic<optim::sgd>;
inline constexpr comm::periodic_options local_sgd_options{.local_steps = 20, .outer_learning_rate = 1.0F};

/// FedAvg (McMahan et al. 2017) with full participation and equal shards: the same average after a local epoch;
/// `local_steps` is the number of batches in one.
using fedavg = comm::periodic<optim::sgd>;
inline constexpr comm::periodic_options fedavg_options{.local_steps = 100, .outer_learning_rate = 1.0F};

}  // namespace causeway::inline CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP

// ---- causeway/causeway.hpp ----
#ifndef CAUSEWAY_CAUSEWAY_HPP
#define CAUSEWAY_CAUSEWAY_HPP

// Everything. Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only
// where that library is at hand; no other header may include one of ours inside #if.

#if __has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__)

// ---- causeway/net/asio_library.hpp ----
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
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <fstream>

#if defined(__linux__)
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

namespace causeway::inline CAUSEWAY_ABI::net::detail {

using tcp = asio::ip::tcp;

/// Asks the kernel for BBR, whose rate does not collapse on a lossy long path as CUBIC's does. False where it refuses.
inline bool ask_for_bbr([[maybe_unused]] tcp::socket& socket) noexcept {
#if defined(__linux__) && defined(TCP_CONGESTION)
  constexpr char name[] = "bbr";
  return ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1) == 0;
#else
  return false;
#endif
}

/// Whether both ends are on this machine. False for a socket that is not connected.
inline bool is_loopback(const tcp::socket& socket) {
  std::error_code failure;
  const auto remote = socket.remote_endpoint(failure);
  return !failure && remote.address().is_loopback();
}

/// Buffers for a link to this machine: 4 MiB save wake-ups (an all-reduce of 64 MiB takes 8 % less time). The kernel clamps
/// larger wishes silently, and a clamped buffer is worse than one it tunes itself; so only where it allows that much.
inline std::size_t loopback_buffer() {
  constexpr std::size_t wanted = std::size_t{4} << 20U;
  for (const char* limit : {"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"}) {
    std::size_t allowed = 0;
    if (!(std::ifstream{limit} >> allowed) || allowed < wanted) return 0;
  }
  return wanted;
}

/// Prepares a connected socket for streaming: no delay, keep-alive, non-blocking, BBR off the machine if wanted, and
/// buffers of `buffer` bytes (0: loopback_buffer on this machine, else what the kernel tunes). Refusals are ignored: the
/// connection works without.
inline void tune(tcp::socket& socket, std::size_t buffer, bool bbr) {
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

inline endpoint to_endpoint(const tcp::endpoint& e) { return {e.address().to_string(), e.port()}; }

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_LIBRARY_HPP

// ---- causeway/net/asio_conversation.hpp ----
#ifndef CAUSEWAY_NET_ASIO_CONVERSATION_HPP
#define CAUSEWAY_NET_ASIO_CONVERSATION_HPP

// A socket on which control frames are exchanged before it becomes a stream of a link: reads exactly one frame when asked,
// never a byte more, with a limit and a deadline. And the one that dials until somebody answers.

namespace causeway::inline CAUSEWAY_ABI::net::detail {

/// Held by shared_ptr; its handlers keep it alive. After `stop` or `release` it calls nobody back.
class conversation : public std::enable_shared_from_this<conversation> {
 public:
  using frame_handler = std::function<void(const frame_header&, std::span<const std::byte>)>;
  using end_handler = std::function<void(const error&)>;

  explicit conversation(tcp::socket socket) : socket_{std::move(socket)}, timer_{socket_.get_executor()} {}

  void on_end(end_handler handler) { ended_ = std::move(handler); }

  /// Reads one frame of at most `limit` bytes behind its header, within `patience`; then calls `handler`.
  void next(std::size_t limit, std::chrono::nanoseconds patience, frame_handler handler) {
    framed_ = std::move(handler);
    arm_timer(patience);
    asio::async_read(socket_, asio::buffer(header_),
                     [self = shared_from_this(), limit](std::error_code failure, std::size_t) {
                       if (failure) return self->end_with(failure);
                       self->read_body(limit);
                     });
  }

  /// Sends a frame; `then` is called once the kernel has all of it.
  void say(frame_kind kind, std::uint64_t run_id, peer_index sender, std::span<const std::byte> body,
           std::function<void()> then = {}) {
    CAUSEWAY_EXPECT(body.size() <= max_control_bytes);
    frame_header h;
    h.kind = kind;
    h.run_id = run_id;
    h.sender = sender;
    h.chunk_length = static_cast<std::uint32_t>(body.size());
    outgoing frame{std::vector<std::byte>(header_bytes), std::move(then)};
    encode_header(h, frame.bytes.data());
    frame.bytes.insert(frame.bytes.end(), body.begin(), body.end());
    queue_.push_back(std::move(frame));
    if (queue_.size() == 1) write_front();
  }

  /// Says why not, and ends when that is out.
  void refuse(std::uint64_t run_id, const error& why) {
    byte_writer body;
    body.put(static_cast<std::uint16_t>(why.code)).put_text(why.message);
    framed_ = {};
    ended_ = {};
    last_words_ = true;
    say(frame_kind::refused, run_id, 0, body.bytes());
  }

  void stop() {
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

  /// Hands the socket over. Precondition: no read is under way, everything said is out.
  tcp::socket release() {
    over_ = true;
    timer_.cancel();
    framed_ = {};
    ended_ = {};
    return std::move(socket_);
  }

  [[nodiscard]] bool over() const noexcept { return over_; }
  [[nodiscard]] const tcp::socket& socket() const noexcept { return socket_; }
  [[nodiscard]] std::string remote() const {
    std::error_code failure;
    const auto e = socket_.remote_endpoint(failure);
    return failure ? std::string{"a closed connection"} : to_endpoint(e).text();
  }

 private:
  struct outgoing {
    std::vector<std::byte> bytes;
    std::function<void()> then;
  };

  void arm_timer(std::chrono::nanoseconds patience) {
    timer_.cancel();
    if (patience == std::chrono::nanoseconds::max()) return;
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this(), round = ++round_](std::error_code failure) {
      if (!failure && round == self->round_) self->end(fail(errc::timeout, self->remote(), "it said nothing in time"));
    });
  }

  void read_body(std::size_t limit) {
    auto h = decode_header(header_);
    if (!h) return end(std::move(h).error());
    if (!is_control(h->kind)) return end(fail(errc::protocol, remote(), "it sent data before the handshake was over"));
    if (h->chunk_length > limit) return end(fail(errc::too_large, remote(), "its handshake is longer than allowed"));
    body_.resize(h->chunk_length);
    asio::async_read(socket_, asio::buffer(body_),
                     [self = shared_from_this(), header = *h](std::error_code failure, std::size_t) {
                       if (failure) return self->end_with(failure);
                       self->deliver(header);
                     });
  }

  void deliver(const frame_header& h) {
    ++round_;
    timer_.cancel();
    if (over_ || !framed_) return;
    const auto handler = std::exchange(framed_, {});
    const std::vector<std::byte> body = std::move(body_);
    handler(h, body);
  }

  void write_front() {
    asio::async_write(socket_, asio::buffer(queue_.front().bytes),
                      [self = shared_from_this()](std::error_code failure, std::size_t) {
                        if (failure) return self->end_with(failure);
                        const auto then = std::move(self->queue_.front().then);
                        self->queue_.pop_front();
                        if (!self->queue_.empty()) self->write_front();
                        if (then && !self->over_) then();
                        if (self->queue_.empty() && self->last_words_) self->stop();
                      });
  }

  void end_with(const std::error_code& failure) {
    const std::string why = failure == asio::error::eof ? "it closed the connection" : failure.message();
    end(fail(errc::peer_lost, over_ ? std::string{} : remote(), why));
  }

  void end(const error& why) {
    if (over_) return;
    const auto handler = std::exchange(ended_, {});
    stop();
    if (handler) handler(why);
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
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

/// Reads the body of a `refused` frame.
inline error read_refusal(std::string where, std::span<const std::byte> body) {
  byte_reader in{body};
  const auto code = static_cast<errc>(in.get<std::uint16_t>());
  std::string text = in.get_text(4096);
  if (!in.ok() || to_string(code) == "unknown") return fail(errc::protocol, std::move(where), "its refusal makes no sense");
  return fail(code, std::move(where), std::move(text));
}

/// Dials an address again and again until somebody answers or it is stopped.
class dialer : public std::enable_shared_from_this<dialer> {
 public:
  using connect_handler = std::function<void(conversation_ptr)>;

  dialer(asio::io_context& io, endpoint target, connect_handler connected)
      : resolver_{io}, socket_{io}, timer_{io}, target_{std::move(target)}, connected_{std::move(connected)} {}

  void dial() {
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

  void stop() {
    connected_ = {};
    resolver_.cancel();
    timer_.cancel();
    std::error_code ignored;
    socket_.close(ignored);
  }

  [[nodiscard]] const endpoint& target() const noexcept { return target_; }
  [[nodiscard]] bool busy() const noexcept { return static_cast<bool>(connected_); }
  /// Why the last attempt failed; empty before that.
  [[nodiscard]] const std::string& last_failure() const noexcept { return last_failure_; }

 private:
  static constexpr std::chrono::milliseconds first_pause{20};
  static constexpr std::chrono::milliseconds longest_pause{500};

  void connect(std::vector<tcp::endpoint> candidates) {
    if (!connected_) return;
    candidates_ = std::move(candidates);
    asio::async_connect(socket_, candidates_, [self = shared_from_this()](std::error_code failure, const tcp::endpoint&) {
      if (!self->connected_) return;
      if (failure) return self->retry(failure);
      const auto call = std::exchange(self->connected_, {});
      call(std::make_shared<conversation>(std::move(self->socket_)));
    });
  }

  void retry(const std::error_code& failure) {
    if (!connected_) return;
    last_failure_ = failure.message();
    std::error_code ignored;
    socket_.close(ignored);
    dial_later();
  }

 public:
  /// Pauses, longer each time, and dials.
  void dial_later() {
    timer_.expires_after(pause_);
    pause_ = std::min(pause_ * 2, longest_pause);
    timer_.async_wait([self = shared_from_this()](std::error_code stopped) {
      if (!stopped && self->connected_) self->dial();
    });
  }

 private:
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  endpoint target_;
  connect_handler connected_;
  std::vector<tcp::endpoint> candidates_;
  std::chrono::milliseconds pause_ = first_pause;
  std::string last_failure_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_ASIO_CONVERSATION_HPP

// ---- causeway/net/asio_stream.hpp ----
#ifndef CAUSEWAY_NET_ASIO_STREAM_HPP
#define CAUSEWAY_NET_ASIO_STREAM_HPP

// The state of one TCP connection of a link: how far it is in reading and in writing. And what all links of a transport
// share. The link drives it; nothing here moves a byte.

namespace causeway::inline CAUSEWAY_ABI::net {

struct transport_options {
  std::size_t chunk_bytes = 0;                            ///< 0: 1 MiB on one stream, 256 KiB on several
  std::size_t unexpected_bytes = std::size_t{64} << 20U;  ///< kept per peer before reading from it pauses
  std::size_t socket_buffer = 0;                          ///< 0: the kernel tunes it
  bool bbr = true;                                        ///< ask the kernel for BBR; false keeps its default
  duration heartbeat = std::chrono::seconds{1};           ///< how often an idle link says that it lives
  duration silence = std::chrono::seconds{10};     ///< a peer silent for longer is lost (or longer, see deadline.hpp)
  duration close_grace = std::chrono::seconds{2};  ///< how long `close` waits for the others' goodbye
  log_sink log;
};

namespace detail {

/// What all links of one transport share. `mutex` guards it and every link.
struct link_context {
  std::mutex mutex;
  operation_table operations;
  traffic stats;
  transport_options options;
  std::uint64_t run_id = 0;
  peer_index self = 0;
  steady_clock clock;
};

/// The chunk length of a link of `streams` streams; both sides compute the same.
inline std::size_t chunk_for(std::size_t wanted, std::size_t streams) noexcept {
  const std::size_t automatic = std::size_t{streams > 1 ? 256U : 1024U} << 10U;
  return std::clamp(wanted == 0 ? automatic : wanted, min_chunk_bytes, max_chunk_bytes);
}

/// What a stream is writing: a header, then bytes of a send.
struct outgoing_frame {
  header_block header;
  std::size_t header_left = 0;
  const std::byte* body = nullptr;
  std::size_t body_left = 0;
  std::size_t body_length = 0;
  slot_index slot = no_slot;
  std::vector<std::byte> rescued;  ///< the rest of a chunk whose send was cancelled

  [[nodiscard]] bool busy() const { return header_left + body_left != 0; }
  [[nodiscard]] std::array<asio::const_buffer, 2> buffers() const {
    return {asio::const_buffer{header.data() + header_bytes - header_left, header_left},
            asio::const_buffer{body, body_left}};
  }
  void consume(std::size_t n) {
    const std::size_t of_header = std::min(n, header_left);
    header_left -= of_header;
    body += n - of_header;
    body_left -= n - of_header;
  }
};

/// One TCP connection of a link, and how far it is in reading and writing.
struct stream {
  static constexpr std::size_t staging_bytes = std::size_t{16} << 10U;

  explicit stream(tcp::socket s) : socket{std::move(s)}, staging(staging_bytes) {}

  tcp::socket socket;
  bool open = true;
  bool read_armed = false;
  bool write_armed = false;
  bool heard_goodbye = false;
  bool said_goodbye = false;

  std::vector<std::byte> staging;  ///< headers, small chunks, and the beginnings of large ones
  std::size_t begin = 0;
  std::size_t end = 0;
  bool in_chunk = false;
  landing spot;
  std::size_t chunk_left = 0;
  std::optional<frame_header> parked;  ///< a chunk that the inbox has no room for yet

  outgoing_frame out;
  std::deque<frame_header> notices;  ///< frames without content that go before the next chunk
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_STREAM_HPP

// ---- causeway/net/asio_link.hpp ----
#ifndef CAUSEWAY_NET_ASIO_LINK_HPP
#define CAUSEWAY_NET_ASIO_LINK_HPP

// The connection to one peer: one or more TCP streams, the sends that wait for them, and the inbox. All reads and writes
// are non-blocking calls made under the transport's lock when a socket is ready, never asynchronous operations on a
// caller's buffer. So once an operation is cancelled nothing can touch its buffer, and no byte is copied between socket and
// buffer.

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

class link {
 public:
  link(link_context& shared, peer_index peer, std::vector<tcp::socket> sockets)
      : shared_{&shared},
        peer_{peer},
        chunk_{chunk_for(shared.options.chunk_bytes, sockets.size())},
        inbox_{shared.operations, peer, {chunk_, shared.options.unexpected_bytes, 4 * shared.options.unexpected_bytes}},
        scrap_(std::size_t{64} << 10U),
        last_heard_{shared.clock.now()},
        gaps_{arrival_options{.floor = shared.options.silence, .cap = shared.options.silence * 12}} {
    for (tcp::socket& socket : sockets) {
      tune(socket, shared.options.socket_buffer, shared.options.bbr);
      streams_.push_back(std::make_unique<stream>(std::move(socket)));
    }
  }

  // All members need the context's lock.

  void start_reading() {
    for (const auto& s : streams_) read_some(*s);
  }

  void send(slot_index slot) {
    if (failure_) return shared_->operations.finish(slot, *failure_);
    waiting_sends_.push_back(slot);
    for (const auto& s : streams_) write_some(*s);
  }

  void receive(slot_index slot) {
    inbox_.post(slot);
    if (failure_) {
      if (!shared_->operations[slot].done) inbox_.fail_all(*failure_);
      return;
    }
    resume_parked();
  }

  /// Gives an unfinished operation up; its buffer is free when this returns.
  void cancel(slot_index slot) {
    if (shared_->operations[slot].is_send) return cancel_send(slot);
    inbox_.cancel(slot);
    for (const auto& s : streams_) {
      if (!s->in_chunk || s->spot.slot != slot) continue;
      s->spot.how = landing::kind::discard;
      s->spot.slot = no_slot;
      s->spot.to = nullptr;
    }
  }

  void discard_before(std::uint32_t epoch) {
    inbox_.discard_before(epoch);
    if (!failure_) resume_parked();
  }

  /// Once per heartbeat interval: says that we live when nothing else did, and notices a silent peer.
  void tick(duration since_last_tick) {
    if (failure_) return;
    if (!wrote_since_tick_ && !streams_[0]->out.busy()) {
      notify(*streams_[0], frame_kind::heartbeat);
      write_some(*streams_[0]);
    }
    wrote_since_tick_ = false;
    if (is_paused()) silent_ = {};
    // Time that this process itself was stopped for does not count against the peer.
    silent_ += std::min(since_last_tick, shared_->options.heartbeat * 2);
    if (silent_ <= std::max(shared_->options.silence, gaps_.count() == 0 ? duration{0} : gaps_.patience())) return;
    lose(fail(errc::peer_lost, peer_name(peer_),
              "nothing was heard from it for " + std::to_string(static_cast<int>(seconds(silent_))) +
                  " s; its machine or the network may be down"));
  }

  /// Says goodbye and gives up what was not waited for. Buffers of such sends may be gone: their streams just end.
  void say_goodbye() {
    if (failure_) return;
    for (const slot_index slot : waiting_sends_) shared_->operations.finish(slot, closed_error());
    waiting_sends_.clear();
    inbox_.fail_all(closed_error());
    closing_ = true;  // what still comes is read and dropped, so that the other side's goodbye can be heard
    for (const auto& s : streams_) {
      s->spot.how = landing::kind::discard;
      s->spot.to = nullptr;
      if (s->out.slot == no_slot) {
        queue_goodbye(*s);
        if (s->parked) read_some(*s);
      } else {
        shared_->operations.finish(s->out.slot, closed_error());
        shut(*s);
      }
    }
  }

  /// Ends the link with an error that every operation of it gets.
  void lose(error why) {
    if (failure_) return;
    failure_ = std::move(why);
    for (const auto& s : streams_) shut(*s);
    fail_everything();
    shared_->options.log(severity::warning, failure_->text());
  }

  [[nodiscard]] bool over() const {
    return std::none_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->open; });
  }
  [[nodiscard]] bool lost() const { return failure_.has_value(); }
  [[nodiscard]] bool is_paused() const {
    return std::any_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->parked.has_value(); });
  }
  [[nodiscard]] time_point last_heard() const { return last_heard_; }
  [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }

 private:
  static constexpr std::size_t turn_bytes = std::size_t{4} << 20U;  // moved before other sockets get their turn

  // ---- writing

  void write_some(stream& s) {
    if (!s.open || s.write_armed) return;
    for (std::size_t moved = 0; moved < turn_bytes;) {
      if (!s.out.busy() && !next_frame(s)) return;
      std::error_code failure;
      const std::size_t n = s.socket.send(s.out.buffers(), 0, failure);
      if (failure == asio::error::would_block || failure == asio::error::try_again) break;
      if (failure) return lose_to(failure);
      shared_->stats.bytes_sent += n;
      wrote_since_tick_ = true;
      moved += n;
      s.out.consume(n);
      if (!s.out.busy()) finish_frame(s);
      if (!s.open) return;
    }
    arm_write(s);
  }

  void arm_write(stream& s) {
    s.write_armed = true;
    s.socket.async_wait(tcp::socket::wait_write, [this, &s](std::error_code failure) {
      const std::lock_guard lock{shared_->mutex};
      s.write_armed = false;
      if (!failure) write_some(s);
    });
  }

  /// Takes the next notice or the next chunk of the oldest send. Streams that are quicker take more chunks.
  bool next_frame(stream& s) {
    if (!s.notices.empty()) {
      encode_header(s.notices.front(), s.out.header.data());
      s.out.body_length = 0;
      s.notices.pop_front();
    } else if (!waiting_sends_.empty() && !s.said_goodbye) {
      take_chunk(s, waiting_sends_.front());
    } else {
      return false;
    }
    s.out.header_left = header_bytes;
    return true;
  }

  void take_chunk(stream& s, slot_index slot) {
    pending_operation& op = shared_->operations[slot];
    if (op.taken == 0) op.sequence = next_sequence_++;
    const std::size_t length = std::min(chunk_, op.length - op.taken);
    frame_header h = header(frame_kind::data);
    h.id = op.id;
    h.sequence = op.sequence;
    h.message_length = op.length;
    h.chunk_offset = op.taken;
    h.chunk_length = static_cast<std::uint32_t>(length);
    encode_header(h, s.out.header.data());
    s.out.body = op.source + op.taken;
    s.out.body_left = s.out.body_length = length;
    s.out.slot = slot;
    op.taken += length;
    if (op.taken == op.length) waiting_sends_.pop_front();
  }

  void finish_frame(stream& s) {
    ++shared_->stats.frames_sent;
    if (s.out.slot != no_slot) {
      pending_operation& op = shared_->operations[s.out.slot];
      op.moved += s.out.body_length;
      if (op.moved == op.length) shared_->operations.finish(s.out.slot);
      s.out.slot = no_slot;
    }
    if (s.said_goodbye && s.notices.empty()) end_writing(s);
  }

  void cancel_send(slot_index slot) {
    const pending_operation& op = shared_->operations[slot];
    std::erase(waiting_sends_, slot);
    for (const auto& s : streams_) {
      if (s->out.slot != slot) continue;
      s->out.rescued.assign(s->out.body, s->out.body + s->out.body_left);
      s->out.body = s->out.rescued.data();
      s->out.slot = no_slot;
    }
    if (failure_ || op.taken == 0 || op.taken == op.length) return;
    frame_header h = header(frame_kind::abort);
    h.id = op.id;
    h.sequence = op.sequence;
    h.message_length = op.length;
    h.chunk_offset = op.taken;
    streams_[0]->notices.push_back(h);
    write_some(*streams_[0]);
  }

  void notify(stream& s, frame_kind kind) { s.notices.push_back(header(kind)); }

  void queue_goodbye(stream& s) {
    if (!s.open || s.said_goodbye) return;
    s.said_goodbye = true;
    notify(s, frame_kind::goodbye);
    write_some(s);
  }

  void end_writing(stream& s) {
    std::error_code ignored;
    s.socket.shutdown(tcp::socket::shutdown_send, ignored);
    if (s.heard_goodbye) shut(s);
  }

  [[nodiscard]] frame_header header(frame_kind kind) const {
    frame_header h;
    h.kind = kind;
    h.run_id = shared_->run_id;
    h.sender = shared_->self;
    return h;
  }

  // ---- reading

  void read_some(stream& s) {
    if (!s.open || s.read_armed) return;
    for (std::size_t moved = 0; moved < turn_bytes;) {
      if (!parse_staged(s)) return;
      const auto buffers = places_to_read(s);
      std::error_code failure;
      const std::size_t n = s.socket.receive(buffers, 0, failure);
      if (failure == asio::error::would_block || failure == asio::error::try_again) break;
      if (failure) return lose_to(failure);
      note_heard(n);
      moved += n;
      const std::size_t of_chunk = std::min(n, buffers[0].size());
      if (of_chunk != 0) advance_chunk(s, of_chunk);
      s.end += n - of_chunk;
      // Less than there was room for: the socket is empty, and parsing what came is all that is left to do.
      if (n < buffers[0].size() + buffers[1].size()) {
        if (!parse_staged(s)) return;
        break;
      }
    }
    arm_read(s);
  }

  void arm_read(stream& s) {
    s.read_armed = true;
    s.socket.async_wait(tcp::socket::wait_read, [this, &s](std::error_code failure) {
      const std::lock_guard lock{shared_->mutex};
      s.read_armed = false;
      if (!failure) read_some(s);
    });
  }

  /// First the rest of the chunk's place, then room for what follows it.
  std::array<asio::mutable_buffer, 2> places_to_read(stream& s) {
    asio::mutable_buffer chunk{nullptr, 0};
    if (s.in_chunk && s.spot.to != nullptr) chunk = {s.spot.to + (s.spot.length - s.chunk_left), s.chunk_left};
    if (s.in_chunk && s.spot.to == nullptr) chunk = {scrap_.data(), std::min(scrap_.size(), s.chunk_left)};
    if (s.begin != 0) {
      std::memmove(s.staging.data(), s.staging.data() + s.begin, s.end - s.begin);
      s.end -= s.begin;
      s.begin = 0;
    }
    // Behind a discarded chunk's first part comes its second: nothing of it may land in the staging area.
    const bool partial = chunk.size() < s.chunk_left;
    return {chunk, asio::mutable_buffer{s.staging.data() + s.end, partial ? 0 : room_behind_chunk(s)}};
  }

  /// Behind a large chunk often comes another: take in its header only, and let its bytes go where they belong.
  static std::size_t room_behind_chunk(const stream& s) {
    const bool large = s.spot.length > stream::staging_bytes;
    return (large ? std::max(header_bytes, s.end + 1) : s.staging.size()) - s.end;
  }

  /// Handles what lies in the staging area. False when the stream must not be read on.
  bool parse_staged(stream& s) {
    while (s.open) {
      if (s.parked && !begin_chunk(s, *s.parked)) return false;
      if (s.in_chunk) {
        const std::size_t n = std::min(s.end - s.begin, s.chunk_left);
        if (n == 0) return true;
        if (s.spot.to != nullptr) {
          std::memcpy(s.spot.to + (s.spot.length - s.chunk_left), s.staging.data() + s.begin, n);
        }
        s.begin += n;
        advance_chunk(s, n);
      } else if (s.end - s.begin < header_bytes) {
        return true;
      } else if (!take_header(s)) {
        return false;
      }
    }
    return false;
  }

  bool take_header(stream& s) {
    auto h = decode_header({s.staging.data() + s.begin, s.end - s.begin});
    s.begin += header_bytes;
    if (!h) return reject(std::move(h).error());
    ++shared_->stats.frames_received;
    if (h->run_id != shared_->run_id) return reject(fail(errc::wrong_run, "", "it sent a frame of another run"));
    if (h->sender != peer_) return reject(fail(errc::protocol, "", "it sent a frame in somebody else's name"));
    switch (h->kind) {
      case frame_kind::data: return begin_chunk(s, *h);
      case frame_kind::heartbeat: return true;
      case frame_kind::goodbye: return hear_goodbye(s);
      case frame_kind::abort: {
        if (closing_) return true;
        auto outcome = inbox_.abort_message(*h);
        return outcome ? true : reject(std::move(outcome).error());
      }
      default: return reject(fail(errc::protocol, "", "it sent a handshake in the middle of a run"));
    }
  }

  bool begin_chunk(stream& s, const frame_header& h) {
    auto spot = closing_ ? result<landing>{landing{.how = landing::kind::discard}} : inbox_.begin_chunk(h);
    if (!spot) return reject(std::move(spot).error());
    if (spot->how == landing::kind::parked) {
      s.parked = h;
      return false;
    }
    s.parked.reset();
    s.spot = *spot;
    s.chunk_left = h.chunk_length;
    s.in_chunk = true;
    if (s.chunk_left == 0) advance_chunk(s, 0);
    return true;
  }

  void advance_chunk(stream& s, std::size_t n) {
    s.chunk_left -= n;
    if (s.chunk_left != 0) return;
    s.in_chunk = false;
    if (!closing_) inbox_.end_chunk(s.spot);
  }

  void resume_parked() {
    for (const auto& s : streams_) {
      if (s->parked) read_some(*s);
    }
  }

  void note_heard(std::size_t n) {
    shared_->stats.bytes_received += n;
    const time_point now = shared_->clock.now();
    // Only pauses say something about how long a living peer can be silent.
    if (now - last_heard_ > shared_->options.heartbeat / 2) gaps_.observe(now - last_heard_);
    last_heard_ = now;
    silent_ = {};
  }

  bool hear_goodbye(stream& s) {
    s.heard_goodbye = true;
    const bool left = std::all_of(streams_.begin(), streams_.end(), [](const auto& x) { return x->heard_goodbye; });
    if (left && !failure_) {
      failure_ = fail(errc::peer_lost, peer_name(peer_), "it left the run");
      fail_everything();
      shared_->options.log(severity::info, failure_->text());
    }
    if (left) {
      for (const auto& x : streams_) answer_goodbye(*x);
    }
    return false;
  }

  void answer_goodbye(stream& s) {
    if (s.out.busy() && s.out.slot != no_slot) return shut(s);  // nobody reads the rest
    if (s.said_goodbye && !s.out.busy() && s.notices.empty()) return shut(s);
    queue_goodbye(s);
  }

  // ---- ending

  /// The peer spoke nonsense: drops it. Always false.
  bool reject(error why) {
    ++shared_->stats.frames_rejected;
    why.message = why.message + " (it was dropped; the others go on)";
    why.where = peer_name(peer_);
    lose(fail(errc::peer_lost, peer_name(peer_), "dropped: " + why.text()));
    return false;
  }

  void lose_to(const std::error_code& failure) {
    const std::string reason = failure == asio::error::eof ? "its program ended" : failure.message();
    lose(fail(errc::peer_lost, peer_name(peer_), "the connection ended: " + reason));
  }

  void fail_everything() {
    for (const slot_index slot : waiting_sends_) shared_->operations.finish(slot, *failure_);
    waiting_sends_.clear();
    for (const auto& s : streams_) {
      if (s->out.slot != no_slot) shared_->operations.finish(s->out.slot, *failure_);
      if (s->out.slot != no_slot) shut(*s);
      s->out.slot = no_slot;
    }
    inbox_.fail_all(*failure_);
  }

  static error closed_error() { return fail(errc::cancelled, "transport", "it was closed before this was waited for"); }

  static void shut(stream& s) {
    std::error_code ignored;
    s.open = false;
    s.socket.close(ignored);
  }

  link_context* shared_;
  peer_index peer_;
  std::size_t chunk_;
  std::vector<std::unique_ptr<stream>> streams_;
  inbox inbox_;
  std::deque<slot_index> waiting_sends_;  // sends with chunks that no stream took yet, oldest first
  std::uint64_t next_sequence_ = 0;
  std::vector<std::byte> scrap_;
  std::optional<error> failure_;
  bool closing_ = false;
  bool wrote_since_tick_ = false;
  time_point last_heard_;
  duration silent_{0};
  arrival_statistics gaps_;
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_LINK_HPP

// ---- causeway/net/asio_transport.hpp ----
#ifndef CAUSEWAY_NET_ASIO_TRANSPORT_HPP
#define CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// The Transport over TCP. Whoever waits does the input and output: while the trainer's thread is inside `wait`, it runs the
// event loop itself, so that a message costs no hand-over between threads; while it computes, a background thread takes
// over after a few milliseconds and keeps transfers and heartbeats going. Exactly one of the two runs the loop at a time.
// One lock guards all state; every handler takes it.

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

/// Connected sockets to every other peer; the entry of the peer itself is empty. They live on `io`.
struct mesh {
  std::unique_ptr<asio::io_context> io;
  std::vector<std::vector<tcp::socket>> sockets;
};

class engine {
 public:
  engine(peer_index self, std::uint64_t run_id, mesh connections, transport_options options)
      : io_{std::move(connections.io)}, timer_{*io_} {
    shared_.options = std::move(options);
    shared_.run_id = run_id;
    shared_.self = self;
    const std::lock_guard lock{shared_.mutex};
    links_.resize(connections.sockets.size());
    for (std::size_t peer = 0; peer < links_.size(); ++peer) {
      if (peer == self) continue;
      links_[peer] = std::make_unique<link>(shared_, static_cast<peer_index>(peer), std::move(connections.sockets[peer]));
      links_[peer]->start_reading();
    }
    last_tick_ = shared_.clock.now();
    arm_timer();
    background_ = std::thread{[this] { run_background(); }};
  }

  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine() { close(); }

  [[nodiscard]] peer_index self() const noexcept { return shared_.self; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(links_.size()); }

  operation start(pending_operation what) {
    const std::lock_guard lock{shared_.mutex};
    what.since = shared_.clock.now();
    const slot_index slot = shared_.operations.start(what);
    if (closed_) {
      shared_.operations.finish(slot, fail(errc::cancelled, "transport", "it was closed"));
    } else if (what.peer >= links_.size() || !links_[what.peer]) {
      shared_.operations.finish(slot, fail(errc::invalid_argument, peer_name(what.peer), "there is no such other peer"));
    } else if (what.is_send && what.length > max_message_bytes) {
      shared_.operations.finish(slot, fail(errc::too_large, peer_name(what.peer), "a message is at most 64 GiB"));
    } else if (what.is_send) {
      links_[what.peer]->send(slot);
    } else {
      links_[what.peer]->receive(slot);
    }
    return shared_.operations.handle(slot);
  }

  result<std::size_t> wait(operation handle, time_point deadline) {
    std::unique_lock lock{shared_.mutex};
    const slot_index slot = shared_.operations.find(handle);
    if (slot == no_slot) return fail(errc::invalid_argument, "wait", "no such operation: each is waited for once");
    if (!drive(lock, deadline, [&] { return shared_.operations[slot].done || interrupted_; })) {
      time_out(slot);
    } else if (!shared_.operations[slot].done) {
      links_[shared_.operations[slot].peer]->cancel(slot);
      shared_.operations.finish(slot, fail(errc::cancelled, "transport", "stopped on request"));
    }
    return shared_.operations.release(slot);
  }

  void interrupt() {
    const std::lock_guard lock{shared_.mutex};
    interrupted_ = true;
    asio::post(*io_, [] {});  // wakes whoever is inside the event loop
    trainer_turn_.notify_all();
  }

  void close() {
    std::unique_lock lock{shared_.mutex};
    if (closed_) return;
    closed_ = true;
    for (const auto& l : links_) {
      if (l) l->say_goodbye();
    }
    const time_point grace = shared_.clock.now() + shared_.options.close_grace;
    drive(lock, grace,
          [&] { return std::all_of(links_.begin(), links_.end(), [](const auto& l) { return !l || l->over(); }); });
    stopping_ = true;
    timer_.cancel();
    asio::post(*io_, [] {});  // wakes the background thread if it is inside the event loop
    background_turn_.notify_all();
    lock.unlock();
    background_.join();
  }

  [[nodiscard]] traffic stats() const {
    const std::lock_guard lock{shared_.mutex};
    return shared_.stats;
  }

  [[nodiscard]] std::size_t streams(peer_index peer) const {
    const std::lock_guard lock{shared_.mutex};
    return peer < links_.size() && links_[peer] ? links_[peer]->stream_count() : 0;
  }

  [[nodiscard]] std::string describe_waits() const {
    const std::lock_guard lock{shared_.mutex};
    const time_point now = shared_.clock.now();
    std::string text;
    shared_.operations.for_each_unfinished([&](const pending_operation& op) {
      const bool paused = links_[op.peer] && links_[op.peer]->is_paused();
      text += std::string{op.is_send ? "sending to " : "receiving from "} + peer_name(op.peer) + " (" + to_text(op.id) +
              ") for " + tenths(seconds(now - op.since)) + " s: " + std::to_string(op.moved) +
              (op.is_send ? " of " : " of at most ") + std::to_string(op.length) + " bytes; last heard from it " +
              tenths(seconds(now - links_[op.peer]->last_heard())) + " s ago" + (paused ? ", reading is paused" : "") +
              "\n";
    });
    return text;
  }

  void discard_before(std::uint32_t epoch) {
    const std::lock_guard lock{shared_.mutex};
    for (const auto& l : links_) {
      if (l) l->discard_before(epoch);
    }
  }

  /// Breaks the connections to a peer without a goodbye, as a crash would.
  void drop(peer_index peer, const std::string& why) {
    const std::lock_guard lock{shared_.mutex};
    if (peer < links_.size() && links_[peer]) links_[peer]->lose(fail(errc::peer_lost, peer_name(peer), why));
  }

 private:
  /// How long the trainer may stay away before the background thread takes the event loop over.
  static constexpr auto patience = std::chrono::milliseconds{2};

  /// Runs the event loop, or lets the background thread run it, until `done` or the deadline. Needs and keeps the lock.
  template <class Done>
  bool drive(std::unique_lock<std::mutex>& lock, time_point deadline, Done done) {
    trainer_waits_ = true;
    bool finished = done();
    if (!finished && shared_.clock.now() >= deadline) finished = look_once(lock, done);
    while (!finished && shared_.clock.now() < deadline) {
      const auto until = to_std(deadline);
      if (loop_taken_) {
        trainer_turn_.wait_until(lock, until);
      } else {
        loop_taken_ = true;
        lock.unlock();
        io_->run_one_until(until);
        lock.lock();
        loop_taken_ = false;
      }
      finished = done();
    }
    trainer_waits_ = false;
    ++trainer_turns_;
    return finished;
  }

  /// What the sockets already hold counts, also when the deadline has passed: a wait with one in the past is a poll.
  template <class Done>
  bool look_once(std::unique_lock<std::mutex>& lock, Done done) {
    if (loop_taken_) return false;
    loop_taken_ = true;
    lock.unlock();
    io_->poll();
    lock.lock();
    loop_taken_ = false;
    return done();
  }

  void run_background() {
    std::unique_lock lock{shared_.mutex};
    std::uint64_t seen_turns = 0;
    while (!stopping_) {
      if (loop_taken_ || trainer_waits_ || seen_turns != trainer_turns_) {
        seen_turns = trainer_turns_;
        background_turn_.wait_for(lock, trainer_waits_ ? 5 * patience : patience);
        continue;
      }
      loop_taken_ = true;
      lock.unlock();
      io_->run_one();
      lock.lock();
      loop_taken_ = false;
      if (trainer_waits_) trainer_turn_.notify_all();
    }
  }

  /// The deadline on the standard clock, at most an hour ahead (waits are repeated until the real deadline).
  [[nodiscard]] std::chrono::steady_clock::time_point to_std(time_point deadline) const {
    const time_point now = shared_.clock.now();
    const time_point capped = std::min(deadline, now + std::chrono::hours{1});
    return std::chrono::steady_clock::time_point{
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(capped.since_start)};
  }

  void time_out(slot_index slot) {
    pending_operation& op = shared_.operations[slot];
    links_[op.peer]->cancel(slot);
    const double waited = seconds(shared_.clock.now() - op.since);
    shared_.operations.finish(
        slot, fail(errc::timeout, peer_name(op.peer),
                   std::string{op.is_send ? "it did not take our message (" : "its message did not come ("} +
                       to_text(op.id) + ") within " + tenths(waited) + " s: " + std::to_string(op.moved) + " of " +
                       (op.is_send ? "" : "at most ") + std::to_string(op.length) + " bytes moved; last heard from it " +
                       tenths(seconds(shared_.clock.now() - links_[op.peer]->last_heard())) + " s ago"));
  }

  void arm_timer() {
    timer_.expires_after(shared_.options.heartbeat);
    timer_.async_wait([this](std::error_code failure) {
      if (failure) return;
      const std::lock_guard lock{shared_.mutex};
      if (stopping_) return;
      const time_point now = shared_.clock.now();
      for (const auto& l : links_) {
        if (l) l->tick(now - last_tick_);
      }
      last_tick_ = now;
      arm_timer();
    });
  }

  static std::string tenths(double s) {
    const auto t = static_cast<std::int64_t>(s * 10 + 0.5);
    return std::to_string(t / 10) + "." + std::to_string(t % 10);
  }

  // Declared before the links: their sockets must go before the event loop does.
  std::unique_ptr<asio::io_context> io_;
  asio::steady_timer timer_;
  mutable link_context shared_;
  std::vector<std::unique_ptr<link>> links_;
  time_point last_tick_;

  bool loop_taken_ = false;     // somebody is inside io_->run_one
  bool trainer_waits_ = false;  // the trainer's thread is inside drive
  bool stopping_ = false;
  bool closed_ = false;
  bool interrupted_ = false;
  std::uint64_t trainer_turns_ = 0;  // ends of drive: tells the background thread that the trainer was here lately
  std::condition_variable trainer_turn_;
  std::condition_variable background_turn_;
  std::thread background_;
};

}  // namespace detail

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
  asio_transport(peer_index self, std::uint64_t run_id, detail::mesh connections, transport_options options)
      : engine_{std::make_shared<detail::engine>(self, run_id, std::move(connections), std::move(options))} {}

  [[nodiscard]] peer_index self() const noexcept { return engine_->self(); }
  [[nodiscard]] std::uint32_t size() const noexcept { return engine_->size(); }

  /// Starts sending. Writes at once what the sockets take. Errors come from `wait`.
  operation send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
    return engine_->start({.is_send = true, .peer = to, .id = id, .source = bytes.data(), .length = bytes.size()});
  }

  /// Starts receiving. A message whose receive was started before it arrives is read straight into `buffer`.
  operation receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
    return engine_->start({.is_send = false, .peer = from, .id = id, .target = buffer.data(), .length = buffer.size()});
  }

  /// Blocks until the operation ended (see Transport). Deadlines are moments of `causeway::steady_clock`.
  result<std::size_t> wait(operation op, time_point deadline) { return engine_->wait(op, deadline); }

  [[nodiscard]] traffic stats() const { return engine_->stats(); }

  /// One line per unfinished operation: whom it concerns, since when, how far it is. Empty when there is none.
  [[nodiscard]] std::string describe_waits() const { return engine_->describe_waits(); }

  /// TCP connections to a peer.
  [[nodiscard]] std::size_t streams(peer_index peer) const { return engine_->streams(peer); }

  /// Forgets kept messages of epochs before `epoch`. Call it when the membership moved on.
  void discard_before(std::uint32_t epoch) { engine_->discard_before(epoch); }

  /// Breaks the connection to a peer: what a membership does with a peer that it voted out. Its operations end with
  /// errc::peer_lost.
  void drop(peer_index peer, const std::string& why) { engine_->drop(peer, why); }

  /// A function that ends the trainer's wait, and all later ones, with errc::cancelled: what a signal's watcher calls. May
  /// be called from any thread, also when the transport is gone. Connections stay, so that `close` can flush.
  [[nodiscard]] std::function<void()> interrupter() const {
    return [weak = std::weak_ptr{engine_}] {
      if (const auto engine = weak.lock()) engine->interrupt();
    };
  }

  /// Says goodbye to everybody, waits up to `close_grace` for theirs, and ends the background thread. Operations that
  /// were not waited for end with errc::cancelled. The destructor does the same.
  void close() { engine_->close(); }

 private:
  std::shared_ptr<detail::engine> engine_;
};
static_assert(Transport<asio_transport>);

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_TRANSPORT_HPP

// ---- causeway/net/asio_greeting.hpp ----
#ifndef CAUSEWAY_NET_ASIO_GREETING_HPP
#define CAUSEWAY_NET_ASIO_GREETING_HPP

// What host and joiners tell each other before the links are made, and what all of them end up with.

namespace causeway::inline CAUSEWAY_ABI::net {

inline constexpr std::uint32_t most_peers = 1024;

/// A run's network, ready to train.
struct membership {
  asio_transport transport;
  std::uint64_t run_id = 0;
  std::vector<std::byte> welcome;   ///< what the host's program gave to `host`; empty with a static list
  std::vector<endpoint> addresses;  ///< of every peer, by index
};

inline constexpr std::size_t max_welcome_bytes = max_control_bytes;

namespace detail {

inline constexpr peer_index any_index = UINT32_MAX;
inline constexpr std::chrono::nanoseconds no_patience_limit = std::chrono::nanoseconds::max();

struct hello {
  std::uint64_t model_hash = 0;
  peer_index wanted = any_index;
  std::string announce;
  std::uint16_t port = 0;
  std::uint8_t has_bbr = 0;

  [[nodiscard]] std::vector<std::byte> encode() const {
    byte_writer out;
    out.put(model_hash).put(wanted).put_text(announce).put(port).put(has_bbr);
    return std::move(out).take();
  }
  static result<hello> decode(std::span<const std::byte> bytes) {
    byte_reader in{bytes};
    hello h;
    h.model_hash = in.get<std::uint64_t>();
    h.wanted = in.get<std::uint32_t>();
    h.announce = in.get_text(255);
    h.port = in.get<std::uint16_t>();
    h.has_bbr = in.get<std::uint8_t>();
    CAUSEWAY_TRY(in.finish("hello"));
    return h;
  }
};

/// Who is where. An empty host means the machine at which the reader reached the host of the run.
struct address_table {
  std::uint64_t token = 0;
  std::uint32_t streams = 0;
  std::vector<endpoint> addresses;

  [[nodiscard]] std::vector<std::byte> encode() const {
    byte_writer out;
    out.put(token).put(streams).put(static_cast<std::uint32_t>(addresses.size()));
    for (const endpoint& e : addresses) out.put_text(e.host).put(e.port);
    return std::move(out).take();
  }
  static result<address_table> decode(std::span<const std::byte> bytes) {
    byte_reader in{bytes};
    address_table t;
    t.token = in.get<std::uint64_t>();
    t.streams = in.get<std::uint32_t>();
    const auto count = in.get<std::uint32_t>();
    if (count > most_peers) return fail(errc::too_large, "address table", "it names more than 1024 peers");
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      endpoint e{in.get_text(255), 0};
      e.port = in.get<std::uint16_t>();
      t.addresses.push_back(std::move(e));
    }
    CAUSEWAY_TRY(in.finish("address table"));
    return t;
  }
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_GREETING_HPP

// ---- causeway/net/asio_listener.hpp ----
#ifndef CAUSEWAY_NET_ASIO_LISTENER_HPP
#define CAUSEWAY_NET_ASIO_LISTENER_HPP

// What host, join and connect_static are told, and the port that a peer listens on.

namespace causeway::inline CAUSEWAY_ABI::net {

/// How far the gathering of peers is.
struct gathering {
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
  std::size_t streams_per_link = 0;  ///< 0: one on loopback or where the kernel has BBR, else 16
  time_point deadline = no_deadline;
  const std::atomic<bool>* stop = nullptr;  ///< set it to give up (errc::cancelled)
  std::function<void(const gathering&)> progress{};
  transport_options transport{};
};

/// A port that we listen on. `open_listener` makes it, so that its address is known before anybody waits.
class listener {
 public:
  /// The address as bound: give it to the others.
  [[nodiscard]] const endpoint& address() const noexcept { return address_; }

  // For the functions of this folder.
  std::unique_ptr<asio::io_context> io;
  std::unique_ptr<detail::tcp::acceptor> acceptor;

  listener(std::unique_ptr<asio::io_context> context, std::unique_ptr<detail::tcp::acceptor> bound, endpoint address)
      : io{std::move(context)}, acceptor{std::move(bound)}, address_{std::move(address)} {}

 private:
  endpoint address_;
};

namespace detail {

inline error bind_error(const endpoint& where, const std::error_code& failure) {
  if (failure == asio::error::address_in_use) {
    return fail(errc::address_in_use, where.text(),
                "port " + std::to_string(where.port) +
                    " is taken by another program; choose another with --listen, or port 0 for any free one");
  }
  return fail(errc::io_failed, where.text(), "cannot listen there: " + failure.message());
}

}  // namespace detail

/// Listens at `where` (port 0: any free port). errc::address_in_use when another program has the port.
inline result<listener> open_listener(const endpoint& where, const log_sink& log = {}) {
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
  return listener{std::move(io), std::move(acceptor), std::move(bound)};
}

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_LISTENER_HPP

// ---- causeway/net/asio_mesh.hpp ----
#ifndef CAUSEWAY_NET_ASIO_MESH_HPP
#define CAUSEWAY_NET_ASIO_MESH_HPP

// How peers that know each other's addresses become a full mesh: everybody listens, dials all peers of a lower index, and
// names itself on each connection. Also the loop that runs until the mesh stands, a deadline passes or somebody says stop.

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

inline constexpr std::chrono::seconds handshake_patience{10};
inline constexpr std::size_t handshake_bytes = std::size_t{4} << 10U;  ///< parsed of a stranger
inline constexpr std::size_t most_strangers = 128;
inline constexpr std::size_t most_streams = 64;

inline std::string run_name(std::uint64_t run_id) { return std::to_string(run_id); }

/// Accepts strangers, dials peers, and collects the sockets of all links. Roles with more to say add handlers. Everything
/// runs on the thread that calls `run`.
class mesh_builder {
 public:
  using hello_handler = std::function<void(conversation_ptr, const frame_header&, std::span<const std::byte>)>;

  mesh_builder(listener& from, const rendezvous_options& options)
      : io_{std::move(from.io)}, acceptor_{std::move(from.acceptor)}, options_{&options}, run_id_{options.run_id} {
    accept();
  }
  mesh_builder(const mesh_builder&) = delete;
  mesh_builder& operator=(const mesh_builder&) = delete;
  ~mesh_builder() { shut_down(); }

  void on_hello(hello_handler handler) { hello_ = std::move(handler); }
  void set_run(std::uint64_t run_id) { run_id_ = run_id; }
  [[nodiscard]] std::uint64_t run_id() const noexcept { return run_id_; }
  [[nodiscard]] asio::io_context& io() noexcept { return *io_; }

  /// Starts making the links of peer `self` of `addresses.size()`. `token` tells this gathering from earlier ones.
  void connect_all(peer_index self, std::vector<endpoint> addresses, std::uint64_t token, std::size_t streams) {
    self_ = self;
    token_ = token;
    streams_ = streams;
    addresses_ = std::move(addresses);
    sockets_.resize(addresses_.size());
    for (peer_index peer = 0; peer < self; ++peer) dial_peer(peer, 0);
    for (auto& early : std::exchange(early_, {})) take_link(early.who, early.header, early.body);
    tell_if_complete();
  }

  /// Called once, when the last link stands.
  void on_complete(std::function<void()> handler) { completed_ = std::move(handler); }

  /// Why dialling failed last: ": reason", or nothing.
  [[nodiscard]] std::string last_failure() const {
    for (const auto& d : dialers_) {
      if (!d->last_failure().empty()) return ": " + d->last_failure();
    }
    return {};
  }

  /// All links stand.
  [[nodiscard]] bool complete() const {
    if (addresses_.empty()) return false;
    for (std::size_t peer = 0; peer < sockets_.size(); ++peer) {
      if (peer != self_ && !link_complete(sockets_[peer])) return false;
    }
    return true;
  }

  /// Dials until somebody answers. `again`: the last connection broke, so pause first.
  void dial(const endpoint& target, dialer::connect_handler connected, bool again = false) {
    std::erase_if(dialers_, [](const auto& d) { return !d->busy(); });
    dialers_.push_back(std::make_shared<dialer>(*io_, target, std::move(connected)));
    again ? dialers_.back()->dial_later() : dialers_.back()->dial();
  }

  void fail_with(error why) {
    if (!failure_) failure_ = std::move(why);
  }

  /// Runs until `done`, the first failure, the deadline or a request to stop. `late` describes what was missing.
  template <class Done, class Late>
  result<void> run(Done done, Late late) {
    const steady_clock clock;
    while (!failure_ && !done()) {
      if (options_->stop != nullptr && options_->stop->load()) {
        return fail(errc::cancelled, "rendezvous", "stopped on request before all peers were connected");
      }
      if (clock.now() >= options_->deadline) return late();
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
  [[nodiscard]] std::string missing() const {
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

  [[nodiscard]] asio_transport finish() {
    shut_down();
    std::vector<std::vector<tcp::socket>> sockets;
    for (auto& link : sockets_) {
      auto& streams = sockets.emplace_back();
      for (auto& socket : link) streams.push_back(std::move(*socket));
    }
    return asio_transport{self_, run_id_, mesh{std::move(io_), std::move(sockets)}, options_->transport};
  }

  void reject(const conversation_ptr& who, const error& why) {
    options_->transport.log(severity::warning, "refused " + who->remote() + ": " + why.message);
    who->refuse(run_id_, why);
  }

  /// The checks that every first frame must pass. Null when it does.
  std::optional<error> check_run(std::uint64_t run_id, std::uint64_t model) const {
    if (run_id != run_id_ && run_id != 0) {
      return fail(errc::wrong_run, "",
                  "this address serves run " + run_name(run_id_) + ", not run " + run_name(run_id) + "; use --run " +
                      run_name(run_id_) + " or another address");
    }
    if (model != options_->model_hash && model != 0 && options_->model_hash != 0) {
      return fail(errc::wrong_model, "",
                  "this run trains another model or with other options; start with the same options as the host");
    }
    return std::nullopt;
  }

 private:
  using link_sockets = std::vector<std::optional<tcp::socket>>;
  struct early_link {
    conversation_ptr who;
    frame_header header;
    std::vector<std::byte> body;
  };

  static bool link_complete(const link_sockets& link) {
    return !link.empty() && std::all_of(link.begin(), link.end(), [](const auto& s) { return s.has_value(); });
  }

  // ---- strangers

  void accept() {
    acceptor_->async_accept([this](std::error_code failure, tcp::socket socket) {
      if (over_ || failure == asio::error::operation_aborted) return;
      if (failure == asio::error::no_descriptors) {
        return fail_with(fail(errc::io_failed, "listener", "this process has no file descriptors left; raise ulimit -n"));
      }
      if (!failure) meet(std::move(socket));
      accept();
    });
  }

  void meet(tcp::socket socket) {
    std::erase_if(strangers_, [](const auto& s) { return s->over(); });
    if (strangers_.size() >= most_strangers) return;  // closes it: a flood must not take the place of those who speak
    const auto who = std::make_shared<conversation>(std::move(socket));
    strangers_.insert(who);
    who->on_end([this, who](const error& why) {
      strangers_.erase(who);
      options_->transport.log(severity::warning, "dropped a connection during its handshake: " + why.text());
    });
    who->next(handshake_bytes, handshake_patience, [this, who](const frame_header& h, std::span<const std::byte> body) {
      strangers_.erase(who);
      if (h.kind == frame_kind::link) return take_link(who, h, body);
      if (h.kind == frame_kind::hello && hello_) return hello_(who, h, body);
      reject(who, fail(errc::protocol, "", "this address is a peer, not the host of the run; join at the host's address"));
    });
  }

  // ---- links

  void dial_peer(peer_index peer, std::size_t stream, bool again = false) {
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
        fail_with(h.kind == frame_kind::refused ? read_refusal(addresses_[peer].text(), answer)
                                                : fail(errc::protocol, peer_name(peer), "it answered out of turn"));
      });
    };
    dial(addresses_[peer], connected, again);
  }

  void start_link(peer_index peer, const conversation_ptr& who) {
    if (!sockets_[peer].empty()) return;
    std::size_t streams = options_->streams_per_link != 0 ? options_->streams_per_link : streams_;
    if (streams == 0) streams = is_loopback(who->socket()) || kernel_has_bbr() ? 1 : 16;
    sockets_[peer].resize(std::min(streams, most_streams));
    for (std::size_t stream = 1; stream < sockets_[peer].size(); ++stream) dial_peer(peer, stream);
  }

  bool kernel_has_bbr() {
    tcp::socket probe{*io_};
    std::error_code failure;
    probe.open(tcp::v4(), failure);
    return options_->transport.bbr && !failure && ask_for_bbr(probe);
  }

  /// A peer of a higher index names itself on a new connection.
  void take_link(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
    if (addresses_.empty()) {  // it got the table before we did
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
    if (token != token_ || me != self_ || h.sender <= self_ || h.sender >= sockets_.size()) {
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

  void keep(peer_index peer, std::size_t stream, const conversation_ptr& who) {
    sockets_[peer][stream] = who->release();
    tell_if_complete();
  }

  void tell_if_complete() {
    if (!completed_ || !complete()) return;
    std::exchange(completed_, {})();
  }

  /// Ends everything that is under way, so that no handler refers to us any more. Sockets of links stay.
  void shut_down() {
    if (over_) return;
    over_ = true;
    std::error_code ignored;
    acceptor_->close(ignored);
    for (const auto& d : dialers_) d->stop();
    for (const auto& group : {&strangers_, &talking_}) {
      for (const auto& who : std::exchange(*group, {})) who->stop();
    }
    for (const auto& e : early_) e.who->stop();
    early_.clear();
    hello_ = {};
    completed_ = {};
    io_->restart();
    io_->poll();
    io_->restart();
    acceptor_.reset();
    dialers_.clear();
  }

  std::unique_ptr<asio::io_context> io_;
  std::unique_ptr<tcp::acceptor> acceptor_;
  const rendezvous_options* options_;
  std::uint64_t run_id_;
  peer_index self_ = 0;
  std::uint64_t token_ = 0;
  std::size_t streams_ = 0;
  std::vector<endpoint> addresses_;
  std::vector<link_sockets> sockets_;
  std::set<conversation_ptr> strangers_;  // connected, nothing said yet
  std::set<conversation_ptr> talking_;    // between `link` and `link_ok`
  std::vector<early_link> early_;
  std::vector<std::shared_ptr<dialer>> dialers_;
  hello_handler hello_;
  std::function<void()> completed_;
  std::optional<error> failure_;
  bool over_ = false;
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_MESH_HPP

// ---- causeway/net/asio_host.hpp ----
#ifndef CAUSEWAY_NET_ASIO_HOST_HPP
#define CAUSEWAY_NET_ASIO_HOST_HPP

// The host's side of a rendezvous: seats joiners, hands out addresses, and says go when every link stands.

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

/// The host's side: a seat for every peer.
class host_session {
 public:
  host_session(listener& from, std::uint32_t peers, std::span<const std::byte> welcome, const rendezvous_options& options)
      : mesh_{from, options}, address_{from.address()}, options_{&options}, welcome_{welcome}, seats_(peers) {
    self_ = options.wanted_index.value_or(0);
    seats_[self_].taken = true;
    mesh_.on_hello([this](const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
      seat(who, h, body);
    });
  }
  ~host_session() {
    for (seat_state& s : seats_) {
      if (s.who) s.who->stop();
    }
  }
  host_session(const host_session&) = delete;
  host_session& operator=(const host_session&) = delete;

  result<membership> run() {
    report();
    if (seats_taken() == seats_.size()) send_tables();
    auto outcome = mesh_.run([this] { return mesh_.complete() && all_ready(); }, [this] { return too_late(); });
    if (!outcome) {
      dismiss(outcome.error());
      return outcome.error();
    }
    send_go();
    CAUSEWAY_TRY(mesh_.run([this] { return waiting_for_go_ == 0; }, [this] { return too_late(); }));
    for (seat_state& s : seats_) {
      if (s.who) s.who->stop();
    }
    return membership{mesh_.finish(), mesh_.run_id(), {welcome_.begin(), welcome_.end()}, addresses_};
  }

 private:
  struct seat_state {
    bool taken = false;
    bool ready = false;
    hello said;
    std::string seen_host;
    conversation_ptr who;
  };

  [[nodiscard]] std::size_t seats_taken() const {
    return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.taken; }));
  }
  [[nodiscard]] bool all_ready() const {
    return !addresses_.empty() &&
           std::all_of(seats_.begin(), seats_.end(), [](const auto& s) { return s.ready || !s.who; });
  }

  void seat(const conversation_ptr& who, const frame_header& h, std::span<const std::byte> body) {
    auto said = hello::decode(body);
    if (!said) return mesh_.reject(who, said.error());
    if (auto wrong = mesh_.check_run(h.run_id, said->model_hash)) return mesh_.reject(who, *wrong);
    auto index = choose_seat(said->wanted);
    if (!index) return mesh_.reject(who, index.error());
    seat_state& s = seats_[*index];
    std::error_code failure;
    s = {true, false, *said, who->socket().remote_endpoint(failure).address().to_string(), who};
    listen_to(*index);
    report();
    if (seats_taken() == seats_.size()) send_tables();
  }

  result<peer_index> choose_seat(peer_index wanted) const {
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

  /// A seated peer says nothing until its links stand; then it says `ready`.
  void listen_to(peer_index index) {
    const conversation_ptr who = seats_[index].who;
    who->on_end([this, index](const error& why) { leave(index, why); });
    who->next(handshake_bytes, no_patience_limit, [this, index](const frame_header& h, std::span<const std::byte> body) {
      if (h.kind == frame_kind::ready && !addresses_.empty()) {
        seats_[index].ready = true;
        return;
      }
      mesh_.fail_with(h.kind == frame_kind::refused ? read_refusal(peer_name(index), body)
                                                    : fail(errc::protocol, peer_name(index), "it answered out of turn"));
    });
  }

  void leave(peer_index index, const error& why) {
    if (!addresses_.empty()) {
      return mesh_.fail_with(fail(errc::peer_lost, peer_name(index), "it left while the links were made: " + why.message));
    }
    options_->transport.log(severity::warning, peer_name(index) + " left before the run was complete: " + why.message);
    seats_[index] = {};
    report();
  }

  /// Tells the program and everybody who waits how many are in.
  void report() {
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

  void send_tables() {
    const address_table table = make_table();
    for (const seat_state& s : seats_) {
      if (!s.who) continue;
      s.who->say(frame_kind::welcome, mesh_.run_id(), self_, welcome_);
      s.who->say(frame_kind::table, mesh_.run_id(), self_, table.encode());
    }
    addresses_ = table.addresses;
    for (endpoint& e : addresses_) {
      if (e.host.empty()) e.host = address_.host;
    }
    mesh_.connect_all(self_, addresses_, table.token, table.streams);
  }

  [[nodiscard]] address_table make_table() const {
    address_table table;
    bool all_local = true;
    bool all_bbr = true;
    const auto now = steady_clock{}.now().since_start.count();
    table.token = hash_text(address_.text(), static_cast<std::uint64_t>(now) ^ mesh_.run_id());
    for (const seat_state& s : seats_) {
      if (!s.who) {
        table.addresses.push_back({options_->announce, address_.port});
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

  void send_go() {
    for (const seat_state& s : seats_) {
      if (!s.who) continue;
      ++waiting_for_go_;
      s.who->on_end([this](const error&) { --waiting_for_go_; });
      s.who->say(frame_kind::go, mesh_.run_id(), self_, {}, [this] { --waiting_for_go_; });
    }
  }

  /// Tells everybody why nothing came of it.
  void dismiss(const error& why) {
    for (const seat_state& s : seats_) {
      if (s.who && !s.who->over()) s.who->refuse(mesh_.run_id(), why);
    }
    mesh_.io().restart();
    mesh_.io().poll();
  }

  [[nodiscard]] error too_late() const {
    const auto in = std::to_string(seats_taken()) + " of " + std::to_string(seats_.size());
    if (addresses_.empty()) return fail(errc::timeout, address_.text(), "only " + in + " peers joined before the deadline");
    std::string slow;
    for (peer_index i = 0; i < seats_.size(); ++i) {
      if (seats_[i].who && !seats_[i].ready) slow += " " + peer_name(i);
    }
    return fail(errc::timeout, address_.text(),
                "the links were not made before the deadline; missing here: " + mesh_.missing() + "; not ready:" + slow);
  }

  mesh_builder mesh_;  // first: its event loop must outlive the conversations of the seats
  endpoint address_;
  const rendezvous_options* options_;
  std::span<const std::byte> welcome_;
  std::vector<seat_state> seats_;
  std::vector<endpoint> addresses_;  // empty until everybody is in
  peer_index self_ = 0;
  std::size_t waiting_for_go_ = 0;
};

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_HOST_HPP

// ---- causeway/net/asio_join.hpp ----
#ifndef CAUSEWAY_NET_ASIO_JOIN_HPP
#define CAUSEWAY_NET_ASIO_JOIN_HPP

// The joiner's side of a rendezvous: dials the host, takes the index it is given, and makes its links.

namespace causeway::inline CAUSEWAY_ABI::net {

namespace detail {

/// The joiner's side.
class join_session {
 public:
  join_session(listener& own, endpoint host, const rendezvous_options& options)
      : own_{own.address()}, host_{std::move(host)}, options_{&options}, mesh_{own, options} {}
  ~join_session() {
    if (control_) control_->stop();
  }
  join_session(const join_session&) = delete;
  join_session& operator=(const join_session&) = delete;

  result<membership> run() {
    mesh_.dial(host_, [this](const conversation_ptr& who) { introduce(who); });
    auto outcome = mesh_.run([this] { return may_go_; }, [this] { return too_late(); });
    if (!outcome) return outcome.error();
    control_->stop();
    return membership{mesh_.finish(), mesh_.run_id(), std::move(welcome_), std::move(addresses_)};
  }

 private:
  void introduce(const conversation_ptr& who) {
    control_ = who;
    if (!is_loopback(who->socket()) && options_->announce.empty() && listens_on_loopback()) {
      return mesh_.fail_with(fail(errc::invalid_argument, own_.text(),
                                  "the run is on another machine, but the other peers cannot reach us there; listen on an "
                                  "address of this machine, for example --listen 0.0.0.0:0"));
    }
    tcp::socket probe{mesh_.io()};
    std::error_code failure;
    probe.open(tcp::v4(), failure);
    const hello said{options_->model_hash, options_->wanted_index.value_or(any_index), options_->announce, own_.port,
                     static_cast<std::uint8_t>(options_->transport.bbr && !failure && ask_for_bbr(probe))};
    who->on_end([this](const error& why) {
      mesh_.fail_with(fail(why.code == errc::peer_lost ? errc::peer_lost : why.code, host_.text(),
                           "the host of the run ended the conversation: " + why.message));
    });
    who->say(frame_kind::hello, options_->run_id, 0, said.encode());
    listen(handshake_patience);
  }

  [[nodiscard]] bool listens_on_loopback() const {
    std::error_code failure;
    const auto address = asio::ip::make_address(own_.host, failure);
    return !failure && address.is_loopback();
  }

  void listen(std::chrono::nanoseconds patience) {
    control_->next(max_control_bytes, patience, [this](const frame_header& h, std::span<const std::byte> body) {
      if (auto outcome = hear(h, body); !outcome) return mesh_.fail_with(outcome.error());
      if (!may_go_) listen(no_patience_limit);
    });
  }

  result<void> hear(const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::refused) return read_refusal(host_.text(), body);
    if (h.kind == frame_kind::accepted) return hear_accepted(h, body);
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

  result<void> hear_accepted(const frame_header& h, std::span<const std::byte> body) {
    byte_reader in{body};
    index_ = in.get<std::uint32_t>();
    wanted_ = in.get<std::uint32_t>();
    const auto joined = in.get<std::uint32_t>();
    CAUSEWAY_TRY(in.finish("acceptance"));
    if (wanted_ > most_peers || index_ >= wanted_) return fail(errc::protocol, host_.text(), "it gave us no usable index");
    if (options_->run_id != 0 && h.run_id != options_->run_id)
      return fail(errc::wrong_run, host_.text(), "it serves another run");
    mesh_.set_run(h.run_id);
    if (options_->progress) options_->progress({joined, wanted_, joined == wanted_});
    return {};
  }

  result<void> hear_table(std::span<const std::byte> body) {
    CAUSEWAY_ASSIGN(address_table table, address_table::decode(body));
    if (table.addresses.size() != wanted_) return fail(errc::protocol, host_.text(), "its table of peers is incomplete");
    for (endpoint& e : table.addresses) {
      if (e.host.empty()) e.host = host_.host;
    }
    addresses_ = table.addresses;
    mesh_.on_complete([this] {
      said_ready_ = true;
      control_->say(frame_kind::ready, mesh_.run_id(), index_, {});
    });
    mesh_.connect_all(index_, addresses_, table.token, table.streams);
    return {};
  }

  [[nodiscard]] error too_late() const {
    if (control_ == nullptr) {
      return fail(errc::unreachable, host_.text(),
                  "nobody answers there" + mesh_.last_failure() + "; is the first peer running, and is its port open?");
    }
    if (addresses_.empty()) return fail(errc::timeout, host_.text(), "the run was not complete before the deadline");
    return fail(errc::timeout, host_.text(), "the links were not made before the deadline; missing: " + mesh_.missing());
  }

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

}  // namespace detail

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_ASIO_JOIN_HPP

// ---- causeway/net/rendezvous.hpp ----
#ifndef CAUSEWAY_NET_RENDEZVOUS_HPP
#define CAUSEWAY_NET_RENDEZVOUS_HPP

// How peers find each other. The first peer hosts: it listens, seats whoever joins, hands out indices and everybody's
// address, and all build the full mesh of links. Or each is given the static list of addresses. Nothing is printed; the
// caller shows `listener::address()` in its join command. Every refusal says what to do about it.

namespace causeway::inline CAUSEWAY_ABI::net {

/// Serves a run at `at` until `peers` peers (ourselves included) are in and connected. `welcome` reaches every joiner.
/// Blocks until then, the deadline (errc::timeout), or a stop (errc::cancelled).
inline result<membership> host(listener at, std::uint32_t peers, std::span<const std::byte> welcome,
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

/// Joins the run served at `address`. Dials again until the deadline while nobody listens there yet.
inline result<membership> join(const endpoint& address, const rendezvous_options& options) {
  CAUSEWAY_ASSIGN(listener own, open_listener(options.listen, options.transport.log));
  return detail::join_session{own, address, options}.run();
}

/// Connects peers that all have the same list of addresses, without a host. `at` listens at `addresses[self]`.
inline result<membership> connect_static(listener at, peer_index self, const std::vector<endpoint>& addresses,
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

/// The same, listening at our own entry of the list.
inline result<membership> connect_static(peer_index self, const std::vector<endpoint>& addresses,
                                         const rendezvous_options& options) {
  if (self >= addresses.size()) return fail(errc::invalid_argument, "static peers", "our index is not in the list");
  CAUSEWAY_ASSIGN(listener at, open_listener(addresses[self], options.transport.log));
  return connect_static(std::move(at), self, addresses, options);
}

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_RENDEZVOUS_HPP
#endif

#if __has_include(<cereal/cereal.hpp>) && !defined(CAUSEWAY_NO_CEREAL) && !defined(__CUDACC__)

// ---- causeway/io/archive.hpp ----
#ifndef CAUSEWAY_IO_ARCHIVE_HPP
#define CAUSEWAY_IO_ARCHIVE_HPP

// The only header that includes cereal: turns objects with `serialize(archive)` into bytes and back, portably (fixed byte
// order, fixed widths). For bytes that we wrote and whose checksum fits, never for bytes from a peer: cereal allocates
// whatever length the bytes claim.

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/deque.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>

#include <exception>
#include <istream>
#include <ostream>
#include <streambuf>

namespace causeway::inline CAUSEWAY_ABI::io {

using output_archive = cereal::PortableBinaryOutputArchive;
using input_archive = cereal::PortableBinaryInputArchive;

/// The bytes of `value`. Large arrays of numbers that lie in memory anyway are better written as a `section` of their own.
template <class T>
result<byte_vector> to_bytes(const T& value);

/// Reads `value` from `bytes`, all of them: errc::corrupt if they end too early, go on afterwards, or make no sense. After
/// an error `value` holds a mixture and must not be used.
template <class T>
result<void> from_bytes(std::span<const std::byte> bytes, T& value);

/// Both, as one object to hand to code that does not know cereal.
struct cereal_archiver {
  template <class T>
  result<byte_vector> to_bytes(const T& value) const {
    return io::to_bytes(value);
  }
  template <class T>
  result<void> from_bytes(std::span<const std::byte> bytes, T& value) const {
    return io::from_bytes(bytes, value);
  }
};

namespace detail {

/// Appends to a vector.
class vector_streambuf final : public std::streambuf {
 public:
  explicit vector_streambuf(byte_vector& out) : out_{&out} {}

 protected:
  std::streamsize xsputn(const char* s, std::streamsize n) override {
    const auto bytes = std::as_bytes(std::span{s, static_cast<std::size_t>(n)});
    out_->insert(out_->end(), bytes.begin(), bytes.end());
    return n;
  }
  int_type overflow(int_type c) override {
    out_->push_back(static_cast<std::byte>(c));
    return c;
  }

 private:
  byte_vector* out_;
};

/// Reads from memory that somebody else owns.
class span_streambuf final : public std::streambuf {
 public:
  explicit span_streambuf(std::span<const std::byte> bytes) {
    // The get area's type wants char*; nothing writes through it.
    char* begin = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
    setg(begin, begin, begin + bytes.size());
  }
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(egptr() - gptr()); }
};

}  // namespace detail

template <class T>
result<byte_vector> to_bytes(const T& value) {
  byte_vector out;
  try {
    detail::vector_streambuf buffer{out};
    std::ostream stream{&buffer};
    output_archive archive{stream};
    archive(value);
  } catch (const std::exception& e) {
    return fail(errc::io_failed, "archive", std::string{"could not write an object: "} + e.what());
  }
  return out;
}

template <class T>
result<void> from_bytes(std::span<const std::byte> bytes, T& value) {
  std::size_t left = 0;
  try {
    detail::span_streambuf buffer{bytes};
    std::istream stream{&buffer};
    input_archive archive{stream};
    archive(value);
    left = buffer.left();
  } catch (const std::exception& e) {
    return fail(errc::corrupt, "archive",
                std::string{"could not read an object: "} + e.what() +
                    ". The bytes were cut, or written by another version of the library");
  }
  if (left == 0) return {};
  return fail(errc::corrupt, "archive",
              std::to_string(left) + " of " + std::to_string(bytes.size()) +
                  " bytes are left over. They were written by another version of the library");
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_ARCHIVE_HPP
#endif

#if defined(__CUDACC__)

// ---- causeway/cuda/runtime.cuh ----
#ifndef CAUSEWAY_CUDA_RUNTIME_CUH
#define CAUSEWAY_CUDA_RUNTIME_CUH

// Device, stream, memory, and CUDA's errors as ours. A machine without a driver or device is an ordinary error, found in a
// fraction of a millisecond; nothing here throws or prints. An error after a kernel fault stays with the process (CUDA
// calls it sticky): it is errc::device_lost, and trying again is useless.

#include <cuda_runtime_api.h>

// Kernels are templates with hidden visibility: two shared objects with the same kernel do not meet.
#define CAUSEWAY_KERNEL __attribute__((visibility("hidden"))) __global__

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// Our error for one of CUDA's; `where` is the operation that reported it. `code` must not be cudaSuccess.
[[nodiscard]] inline error to_error(cudaError_t code, std::string where) {
  const std::string said = cudaGetErrorString(code);
  switch (code) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
      return fail(errc::unsupported, std::move(where),
                  "no usable CUDA device (" + said + "); install an NVIDIA driver, or run on the CPU");
    case cudaErrorNoKernelImageForDevice:
      return fail(errc::unsupported, std::move(where),
                  "the program holds no code for this device (" + said + "); add it to CMAKE_CUDA_ARCHITECTURES");
    case cudaErrorMemoryAllocation:
      return fail(errc::out_of_memory, std::move(where),
                  "device memory is full (" + said + "); use a smaller batch or model");
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidConfiguration: return fail(errc::invalid_argument, std::move(where), said);
    default: return fail(errc::device_lost, std::move(where), "the device failed (" + said + "); restart the process");
  }
}

/// Success, or the error of a CUDA call.
[[nodiscard]] inline result<void> check(cudaError_t code, const char* where) {
  if (code == cudaSuccess) return {};
  return to_error(code, where);
}

/// How many devices there are: at least one, or errc::unsupported with what is missing.
[[nodiscard]] inline result<int> device_count() {
  int count = 0;  // CUDA leaves it alone when there is no driver
  CAUSEWAY_TRY(check(cudaGetDeviceCount(&count), "counting CUDA devices"));
  if (count == 0) return to_error(cudaErrorNoDevice, "counting CUDA devices");
  return count;
}

/// What a device is and can do.
struct device_properties {
  std::string name;
  int major = 0;  ///< compute capability: 9.0 is major 9, minor 0
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory = 0;  ///< bytes
};

[[nodiscard]] inline result<device_properties> describe_device(int device = 0) {
  cudaDeviceProp p{};
  CAUSEWAY_TRY(check(cudaGetDeviceProperties(&p, device), "describing a CUDA device"));
  return device_properties{p.name, p.major, p.minor, p.multiProcessorCount, p.totalGlobalMem};
}

/// A queue of work on the current device; owns it. Work of one stream runs in order. Movable, not copyable; one thread at a
/// time.
class stream {
 public:
  [[nodiscard]] static result<stream> create() {
    cudaStream_t handle = nullptr;
    CAUSEWAY_TRY(check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "creating a CUDA stream"));
    return stream{handle};
  }

  stream(stream&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
  stream& operator=(stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~stream() {
    if (handle_ != nullptr) (void)cudaStreamDestroy(handle_);
  }

  /// Blocks until all work given so far is done; a fault of any of it comes back here.
  [[nodiscard]] result<void> synchronize() { return check(cudaStreamSynchronize(handle_), "waiting for a CUDA stream"); }

  [[nodiscard]] cudaStream_t handle() const noexcept { return handle_; }

 private:
  explicit stream(cudaStream_t handle) noexcept : handle_{handle} {}

  cudaStream_t handle_ = nullptr;
};

/// A fixed number of values of a trivially copyable type in device memory, not initialised. Movable, not copyable.
template <class T>
class device_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  [[nodiscard]] static result<device_buffer> create(std::size_t count) {
    void* data = nullptr;
    if (count > 0) CAUSEWAY_TRY(check(cudaMalloc(&data, count * sizeof(T)), "reserving device memory"));
    return device_buffer{static_cast<T*>(data), count};
  }

  device_buffer(device_buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_buffer() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Starts copying `host` into the buffer; `host` must have its size and stay unchanged until the stream is synchronized.
  [[nodiscard]] result<void> write(stream& s, std::span<const T> host) {
    CAUSEWAY_EXPECT(host.size() == size_);
    return check(cudaMemcpyAsync(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice, s.handle()),
                 "copying to the device");
  }

  /// Starts copying the buffer into `host`, which has its size; the values are there once the stream is synchronized.
  [[nodiscard]] result<void> read(stream& s, std::span<T> host) const {
    CAUSEWAY_EXPECT(host.size() == size_);
    return check(cudaMemcpyAsync(host.data(), data_, host.size_bytes(), cudaMemcpyDeviceToHost, s.handle()),
                 "copying from the device");
  }

 private:
  device_buffer(T* data, std::size_t count) noexcept : data_{data}, size_{count} {}

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_RUNTIME_CUH

// ---- causeway/cuda/elementwise.cuh ----
#ifndef CAUSEWAY_CUDA_ELEMENTWISE_CUH
#define CAUSEWAY_CUDA_ELEMENTWISE_CUH

// Runs a body once per element on the device. The body is a small trivially copyable struct, pointers and numbers, whose
// call operator is host and device code: the same body runs on the CPU, where it can be tested on any machine. The kernel
// here adds index arithmetic and nothing else.

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// `body(i)` does element i; it touches no other thread's elements.
template <class B>
concept ElementBody = std::is_trivially_copyable_v<B> && std::invocable<const B&, std::int64_t>;

/// out[i] = Out(float(in[i])): all conversions between f32, bf16 and f16. Reads and writes each element once.
template <class In, class Out>
struct convert_body {
  const In* in = nullptr;
  Out* out = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const { out[i] = static_cast<Out>(static_cast<float>(in[i])); }
};

namespace detail {

struct elementwise_tuning {
  unsigned threads = 256;      // per block
  std::int64_t blocks = 4096;  // at most; beyond that each thread takes several elements
};

template <class Body>
CAUSEWAY_KERNEL void one_element_per_thread(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

}  // namespace detail

/// Starts `body(i)` for all i in [0, count) on the stream. Errors: what the launch itself reports; a fault while running
/// comes back from `stream::synchronize`.
template <ElementBody Body>
[[nodiscard]] result<void> elementwise(stream& s, std::int64_t count, Body body) {
  CAUSEWAY_EXPECT(count >= 0);
  if (count == 0) return {};  // CUDA refuses an empty grid
  constexpr detail::elementwise_tuning tuning{};
  const std::int64_t blocks = std::min(tuning.blocks, (count + tuning.threads - 1) / tuning.threads);
  detail::one_element_per_thread<<<static_cast<unsigned>(blocks), tuning.threads, 0, s.handle()>>>(body, count);
  return check(cudaGetLastError(), "launching an element-wise kernel");
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ELEMENTWISE_CUH
#endif

#endif  // CAUSEWAY_CAUSEWAY_HPP
