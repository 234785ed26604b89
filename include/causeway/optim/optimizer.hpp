// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_OPTIMIZER_HPP
#define CAUSEWAY_OPTIM_OPTIMIZER_HPP

// What an optimizer is, and what all of them need: state beside the flat parameters, and a walk over the parameters that
// knows which are decayed. An optimizer is a regular value; it sees the flat buffers and the segments, never the model.

#include <causeway/core/concepts.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

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
concept Optimizer = Movable<O> && requires(O& o, thread_pool& pool, parameter_view view, step_options options) {
  { O::name } -> ConvertibleTo<std::string_view>;
  { o.reset(std::int64_t{}) } -> std::same_as<void>;
  { o.step(pool, view, options) } -> std::same_as<void>;
};

namespace detail {
/// Any argument of a constructor.
struct anything {
  template <class T>
  operator T() const;  // NOLINT: that is what it is for
};
}  // namespace detail

/// One with the same options and no state. An optimizer whose constructor takes more than its options says itself how, by
/// `anew()`.
template <class O>
O anew(const O& optimizer) {
  if constexpr (requires { optimizer.anew(); }) {
    return optimizer.anew();
  } else {
    static_assert(
        !std::is_constructible_v<O, decltype(optimizer.options()), detail::anything>,
        "causeway-P12: this optimizer is made of more than its options, which a copy of it would be without; give "
        "it `anew()`, which makes one with all of that and no state. docs/reference/rules.md#p12");
    return O{optimizer.options()};
  }
}

/// Its step is linear in parameters, gradients and state: what two of them make of two parts adds up to what one makes of
/// the sum.
template <class O>
inline constexpr bool is_linear = (requires { requires O::linear; });

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
  void serialize(auto& ar) {
    if constexpr (requires { ar.view(std::span<float>{}); }) {
      return ar.view(values_.span());  // an archive that refers to memory instead of copying it
    }
    std::uint64_t length = values_.size();
    ar(length);
    if constexpr (requires { ar.left(); }) {  // no more memory than there are bytes; the pieces notice what is missing
      length = std::min<std::uint64_t>(length, ar.left() / sizeof(float));
    }
    if (length != values_.size()) values_ = aligned_buffer<float>{static_cast<std::size_t>(length), source_};
    constexpr std::size_t most = std::size_t{1} << 20U;
    std::vector<float> piece;
    for (std::size_t begin = 0; begin < values_.size(); begin += most) {
      const std::size_t count = std::min(most, values_.size() - begin);
      piece.assign(values_.data() + begin, values_.data() + begin + count);
      ar(piece);
      if (piece.size() != count) throw std::length_error{"a buffer is shorter than it says"};  // which from_bytes() catches
      std::copy_n(piece.data(), count, values_.data() + begin);
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
void for_pieces(std::span<const parameter_segment> segments, index_range part, auto&& f) {
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

/// The same over all threads, in contiguous parts of the flat buffers. Without segments all is decayed.
void for_all_pieces(thread_pool& pool, const parameter_view& view, auto&& f) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_OPTIMIZER_HPP
