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

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// Parts of the flat buffer, gathered to one row in this order, and the matrices and the padding that lie in the row.
struct fragment {
  std::vector<index_range> ranges;
  std::vector<compress::matrix_range> matrices;
  std::size_t size = 0;
  std::vector<index_range> padding{};
  std::size_t number = 0;         ///< of the fragment that it is, or a block's part of
  std::size_t block = any_block;  ///< that it is a part of, where rows are of single blocks; a table of both ends is one
  static constexpr std::size_t any_block = SIZE_MAX;

  /// Whether the row is the whole buffer as it lies.
  [[nodiscard]] bool is_whole(std::size_t length) const noexcept { return ranges.size() == 1 && size == length; }

  CAUSEWAY_DECL void add(const parameter_segment& s, std::int64_t end);
};

CAUSEWAY_DECL void gather(const fragment& f, std::span<const float> all, std::span<float> row);

CAUSEWAY_DECL void scatter(const fragment& f, std::span<const float> row, std::span<float> all);

/// The model that a buffer is a part of: its tensors as they lie where all of it is, how many values that are, and its
/// blocks. Nothing: the buffer is the whole.
struct whole_model {
  std::span<const parameter_segment> segments{};
  std::size_t length = 0;
  std::size_t blocks = 0;
  bool shares_table = false;  ///< the first tensor is at both ends
};

namespace detail {

CAUSEWAY_DECL [[nodiscard]] result<std::vector<fragment>> numbered(result<std::vector<fragment>> all);

}  // namespace detail

/// `cut(segments, length, whole)`: the fragments of a buffer of `length` values, which is a part of `whole`; they are those
/// of the whole, so that a tensor is in the same one wherever it is, and some may be empty here. errc::invalid_argument
/// where the options do not fit the model. `single`: there is always just one.
template <class F>
concept Fragments = F::decides == part::fragments&& requires(const F& f, std::span<const parameter_segment> segments,
                                                             std::size_t length, const whole_model& whole) {
  { f.cut(segments, length, whole) } -> std::same_as<result<std::vector<fragment>>>;
  {bool{F::single}};
};

/// Each of the `fragments` of a whole model as many as it has blocks, without those that are empty wherever they are. What
/// stands before the first block or behind the last is of these; a table that both ends share is a block of its own, the
/// last. Of the part with these segments, `length` values.
CAUSEWAY_DECL [[nodiscard]] std::vector<fragment> single_blocks(std::span<const parameter_segment> segments,
                                                                std::size_t length, const whole_model& of,
                                                                std::span<const fragment> fragments);

/// Those of the part of a model that this peer holds. They are those of the whole model, so that all its stages exchange
/// them after the same steps. Where peers that exchange hold different blocks, each is as many rows as it has blocks, and a
/// table of both ends is one more.
template <Fragments F>
result<std::vector<fragment>> cut_part(const F& fragments, auto& ctx) {
  const auto view = ctx.view();
  if constexpr (requires { ctx.model().declared_parameters(); }) {
    bool by_block = false;
    if constexpr (requires { ctx.membership().rows_by_block(); }) by_block = ctx.membership().rows_by_block();
    if (by_block || !F::single) {
      const parameter_store all = ctx.model().declared_parameters();
      whole_model of{all.segments(), static_cast<std::size_t>(all.length()),
                     static_cast<std::size_t>(ctx.model().blocks())};
      if (!by_block) return detail::numbered(fragments.cut(view.segments, view.values.size(), of));
      CAUSEWAY_ASSIGN(const auto cut, fragments.cut(of.segments, of.length, of));
      if constexpr (requires { ctx.model().shares_table(); }) of.shares_table = ctx.model().shares_table();
      return single_blocks(view.segments, view.values.size(), of, cut);
    }
  }
  return detail::numbered(fragments.cut(view.segments, view.values.size(), whole_model{}));
}

namespace detail {

/// Where segment s ends, with the padding behind it.
CAUSEWAY_DECL std::int64_t end_of(std::span<const parameter_segment> segments, std::size_t s, std::size_t length);

/// Puts every segment s into the fragment that `of(s)` names.
std::vector<fragment> cut_by(std::span<const parameter_segment> segments, std::size_t length, std::size_t count,
                             auto&& of) {
  std::vector<fragment> all(count);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    all[of(s)].add(segments[s], end_of(segments, s, length));
  }
  return all;
}

CAUSEWAY_DECL std::size_t blocks_of(std::span<const parameter_segment> segments);

}  // namespace detail

/// All parameters at once.
struct whole {
  static constexpr part decides = part::fragments;
  static constexpr bool single = true;

  CAUSEWAY_DECL [[nodiscard]] result<std::vector<fragment>> cut(std::span<const parameter_segment> segments,
                                                                std::size_t length, const whole_model& of = {}) const;
};

/// Whole transformer blocks together; what is not in a block (embeddings, last norm, head) is the first fragment. Strided
/// fragments hold every n-th block, so that all depths of the network are fresh at all times (Streaming DiLoCo's choice,
/// with 3 blocks a fragment); consecutive ones hold neighbours.
template <bool Strided>
struct blocks {
  static constexpr part decides = part::fragments;
  static constexpr bool single = false;

  std::uint32_t per_fragment = 3;

  [[nodiscard]] result<std::vector<fragment>> cut(std::span<const parameter_segment> segments, std::size_t length,
                                                  const whole_model& of = {}) const {
    const std::size_t count = of.blocks > 0 ? of.blocks : detail::blocks_of(segments);
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
/// tensor first, each to the smallest fragment so far (Graham 1969: at most 4/3 of the best peak). A stage's parts of them
/// need not be equal: each is at most as long as the whole model's.
struct balanced {
  static constexpr part decides = part::fragments;
  static constexpr bool single = false;

  std::uint32_t count = 24;

  CAUSEWAY_DECL [[nodiscard]] result<std::vector<fragment>> cut(std::span<const parameter_segment> segments,
                                                                std::size_t length, const whole_model& of = {}) const;
};

static_assert(Fragments<whole> && Fragments<strided> && Fragments<consecutive> && Fragments<balanced>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/fragments.ipp>
#endif

#endif  // CAUSEWAY_AXIS_FRAGMENTS_HPP
