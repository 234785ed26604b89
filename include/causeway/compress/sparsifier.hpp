// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_SPARSIFIER_HPP
#define CAUSEWAY_COMPRESS_SPARSIFIER_HPP

// Which values of a row travel. A sparsifier chooses coordinates and writes them down; what the values become is somebody
// else's job (sparse.hpp). Where all peers can work the coordinates out for themselves, it writes nothing.

#include <causeway/compress/message.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/targets.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Requirements, for a row of n < 2^32 values:
///
/// - `most_kept(ctx, n)` and `most_bytes(ctx, n)`: no selection has more coordinates, none is longer. Equal on all peers.
/// - `select(ctx, values, kept, room)` makes `kept` the coordinates to send, each once, in the order that their values will
///   have; writes what a reader needs to find them to the front of `room`, and gives the number of bytes.
/// - `read(ctx, bytes, n, kept)` finds the coordinates from the front of bytes that anybody may have sent, and gives the
///   number of bytes it used. All are below n and no two are equal. errc::protocol when bytes are missing, errc::corrupt
///   for bytes that select does not write.
/// - `exact_count`: each selection has `most_kept` coordinates.
/// - `shared_support`: `kept` is the same on all peers of an exchange, whatever their values.
template <class S>
concept Sparsifier = Copyable<S> &&
    requires(const S& s, const message_context& ctx, std::size_t n, std::span<const float> values,
             std::vector<std::uint32_t>& kept, std::span<std::byte> room, std::span<const std::byte> bytes) {
  { S::name } -> ConvertibleTo<std::string_view>;
  {bool{S::shared_support}};
  {bool{S::exact_count}};
  { s.most_kept(ctx, n) } -> std::same_as<std::size_t>;
  { s.most_bytes(ctx, n) } -> std::same_as<std::size_t>;
  { s.select(ctx, values, kept, room) } -> std::same_as<std::size_t>;
  { s.read(ctx, bytes, n, kept) } -> std::same_as<result<std::size_t>>;
};

namespace detail {

inline void expect_row_size([[maybe_unused]] std::size_t n) {
  CAUSEWAY_EXPECT(n <= std::numeric_limits<std::uint32_t>::max());
}

inline error missing_bytes(std::string_view codec, std::size_t got, std::size_t expected) {
  return fail(errc::protocol, std::string{codec},
              std::to_string(got) + " bytes where " + std::to_string(expected) +
                  " say which values were sent; do both sides use the same codec and options?");
}

inline error bad_indices(std::string_view codec) {
  return fail(errc::corrupt, std::string{codec}, "indices that repeat, descend or leave the row: no encoder makes them");
}

/// to[i] = from[where[i]].
inline void gather_values(thread_pool& pool, std::span<const float> from, std::span<const std::uint32_t> where,
                          std::span<float> to) {
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(where.size()), [&](index_range r) {
    for (auto i = static_cast<std::size_t>(r.begin); i < static_cast<std::size_t>(r.end); ++i) to[i] = from[where[i]];
  });
}

/// One bit per coordinate.
class coordinate_set {
 public:
  explicit coordinate_set(std::size_t n) : words_((n + 63) / 64), n_{n} {}

  [[nodiscard]] std::span<std::uint64_t> words() noexcept { return words_; }

  /// Sets bit i where test(i), on the pool's threads.
  void fill(thread_pool& pool, auto&& test) {
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(n_), [&](index_range r) {
      for (std::int64_t first = r.begin; first < r.end; first += 64) {  // parts begin at multiples of 64
        const std::int64_t count = r.end - first < 64 ? r.end - first : 64;
        std::uint64_t word = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          word |= std::uint64_t{test(static_cast<std::size_t>(first + i))} << static_cast<unsigned>(i);
        }
        words_[static_cast<std::size_t>(first) / 64] = word;
      }
    });
  }

  /// The coordinates whose bits are set, ascending.
  void list(thread_pool& pool, std::vector<std::uint32_t>& kept) const {
    const auto count = static_cast<std::int64_t>(words_.size());
    const unsigned parts = n_ <= std::size_t{kernels::detail::smallest_share} ? 1 : pool.size();
    std::vector<std::size_t> starts(parts + 1);
    const auto each = [&](auto&& f) { parts == 1 ? f(0U) : pool.run(f); };
    each([&](unsigned part) {
      const index_range r = share_of(count, part, parts);
      for (std::int64_t w = r.begin; w < r.end; ++w) starts[part + 1] += bits_in(w);
    });
    for (unsigned part = 0; part < parts; ++part) starts[part + 1] += starts[part];
    kept.resize(starts[parts]);
    each([&](unsigned part) {
      const index_range r = share_of(count, part, parts);
      std::uint32_t* to = kept.data() + starts[part];
      for (std::int64_t w = r.begin; w < r.end; ++w) {
        for (std::uint64_t word = words_[static_cast<std::size_t>(w)]; word != 0; word &= word - 1) {
          *to++ = static_cast<std::uint32_t>(w * 64 + std::countr_zero(word));
        }
      }
    });
  }

 private:
  [[nodiscard]] std::size_t bits_in(std::int64_t w) const {
    return static_cast<std::size_t>(std::popcount(words_[static_cast<std::size_t>(w)]));
  }

  std::vector<std::uint64_t> words_;
  std::size_t n_;
};

/// Magnitude as an integer that orders like it: NaN above infinity above all numbers.
inline std::uint32_t magnitude_bits(float value) noexcept { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_SPARSIFIER_HPP
