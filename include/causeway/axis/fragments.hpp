// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_FRAGMENTS_HPP
#define CAUSEWAY_AXIS_FRAGMENTS_HPP

// How the parameters are cut into fragments that are exchanged on their own. Every value of the flat buffer, padding
// included, is in exactly one fragment. All peers cut alike: the cut is a function of the segments.

#include <causeway/axis/parts.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::axis {

/// Parts of the flat buffer, gathered to one row in this order, and the matrices that lie in the row.
struct fragment {
  std::vector<index_range> ranges;
  std::vector<compress::matrix_range> matrices;
  std::size_t size = 0;

  /// Whether the row is the whole buffer as it lies.
  [[nodiscard]] bool is_whole(std::size_t length) const noexcept { return ranges.size() == 1 && size == length; }

  void add(const parameter_segment& s, std::int64_t end) {
    matrices.push_back({size, static_cast<std::size_t>(s.rows), static_cast<std::size_t>(s.columns)});
    if (!ranges.empty() && ranges.back().end == s.offset) {
      ranges.back().end = end;
    } else {
      ranges.push_back({s.offset, end});
    }
    size += static_cast<std::size_t>(end - s.offset);
  }
};

inline void gather(const fragment& f, std::span<const float> all, std::span<float> row) {
  auto to = row.begin();
  for (const index_range r : f.ranges) to = std::copy(all.begin() + r.begin, all.begin() + r.end, to);
}

inline void scatter(const fragment& f, std::span<const float> row, std::span<float> all) {
  auto from = row.begin();
  for (const index_range r : f.ranges) {
    std::copy(from, from + r.size(), all.begin() + r.begin);
    from += r.size();
  }
}

/// `cut(segments, length)`: the fragments of a buffer of `length` values; errc::invalid_argument where the options do not
/// fit the model. `single`: there is always just one.
template <class F>
concept Fragments = F::decides == part::fragments&& requires(const F& f, std::span<const parameter_segment> segments,
                                                             std::size_t length) {
  { f.cut(segments, length) } -> std::same_as<result<std::vector<fragment>>>;
  {bool{F::single}};
};

namespace detail {

/// Where segment s ends, with the padding behind it.
inline std::int64_t end_of(std::span<const parameter_segment> segments, std::size_t s, std::size_t length) {
  return s + 1 < segments.size() ? segments[s + 1].offset : static_cast<std::int64_t>(length);
}

/// Puts every segment s into the fragment that `of(s)` names.
template <class Of>
std::vector<fragment> cut_by(std::span<const parameter_segment> segments, std::size_t length, std::size_t count, Of&& of) {
  std::vector<fragment> all(count);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    all[of(s)].add(segments[s], end_of(segments, s, length));
  }
  return all;
}

inline std::size_t blocks_of(std::span<const parameter_segment> segments) {
  // The head is in the block after the last; a model without a head of its own still has its last norm there.
  int most = -1;
  for (const auto& s : segments) most = std::max(most, s.block);
  return most < 0 ? 0 : static_cast<std::size_t>(most);
}

}  // namespace detail

/// All parameters at once.
struct whole {
  static constexpr part decides = part::fragments;
  static constexpr bool single = true;

  [[nodiscard]] result<std::vector<fragment>> cut(std::span<const parameter_segment> segments, std::size_t length) const {
    if (segments.empty()) return std::vector<fragment>{{{{0, static_cast<std::int64_t>(length)}}, {}, length}};
    return detail::cut_by(segments, length, 1, [](std::size_t) { return 0U; });
  }
};

/// Whole transformer blocks together; what is not in a block (embeddings, last norm, head) is the first fragment. Strided
/// fragments hold every n-th block, so that all depths of the network are fresh at all times (Streaming DiLoCo's choice,
/// with 3 blocks a fragment); consecutive ones hold neighbours.
template <bool Strided>
struct blocks {
  static constexpr part decides = part::fragments;
  static constexpr bool single = false;

  std::uint32_t per_fragment = 3;

  [[nodiscard]] result<std::vector<fragment>> cut(std::span<const parameter_segment> segments, std::size_t length) const {
    const std::size_t count = detail::blocks_of(segments);
    if (per_fragment == 0 || count == 0) {
      return fail(errc::invalid_argument, "fragments",
                  count == 0 ? "the model has no blocks to cut at; use axis::whole or axis::balanced"
                             : "0 blocks in a fragment; set per_fragment to 1 or more");
    }
    const std::size_t groups = (count + per_fragment - 1) / per_fragment;
    return detail::cut_by(segments, length, groups + 1, [&](std::size_t s) -> std::size_t {
      const int block = segments[s].block;
      if (block < 0 || static_cast<std::size_t>(block) >= count) return 0;
      const auto b = static_cast<std::size_t>(block);
      return 1 + (Strided ? b % groups : b / per_fragment);
    });
  }
};
using strided = blocks<true>;
using consecutive = blocks<false>;

/// `count` fragments of whole tensors with as equal a number of bytes as that allows (Decoupled DiLoCo: 24): the largest
/// tensor first, each to the smallest fragment so far (Graham 1969: at most 4/3 of the best peak).
struct balanced {
  static constexpr part decides = part::fragments;
  static constexpr bool single = false;

  std::uint32_t count = 24;

  [[nodiscard]] result<std::vector<fragment>> cut(std::span<const parameter_segment> segments, std::size_t length) const {
    if (count == 0 || count > segments.size()) {
      return fail(errc::invalid_argument, "balanced",
                  std::to_string(count) + " fragments of a model with " + std::to_string(segments.size()) +
                      " tensors; take between 1 and that many");
    }
    const auto size = [&](std::size_t s) { return detail::end_of(segments, s, length) - segments[s].offset; };
    std::vector<std::size_t> order(segments.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
    std::vector<std::int64_t> filled(count);
    std::vector<std::size_t> home(segments.size());
    for (const std::size_t s : order) {
      const auto least = std::min_element(filled.begin(), filled.end());
      *least += size(s);
      home[s] = static_cast<std::size_t>(least - filled.begin());
    }
    return detail::cut_by(segments, length, count, [&](std::size_t s) { return home[s]; });
  }
};

static_assert(Fragments<whole> && Fragments<strided> && Fragments<consecutive> && Fragments<balanced>);

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_FRAGMENTS_HPP
