// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SUBSPACE_ADAMW_IPP
#define CAUSEWAY_STAGE_IMPL_SUBSPACE_ADAMW_IPP

#include <causeway/stage/subspace_adamw.hpp>

#include <iterator>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL subspace_adamw::subspace_adamw(subspace_basis basis, std::vector<confined_pieces> pieces,
                                             optim::adamw_options options)
    : options_{options}, basis_{std::move(basis)}, pieces_{std::move(pieces)} {}

CAUSEWAY_DECL void subspace_adamw::reset(std::int64_t length) {
  first_ = optim::state_buffer{length};
  second_ = optim::state_buffer{length};
  clock_ = {};
}

CAUSEWAY_DECL void subspace_adamw::resume(std::int64_t length, std::uint64_t steps) {
  reset(length);
  clock_.resume(options_, steps);
}

CAUSEWAY_DECL void subspace_adamw::step(thread_pool& pool, parameter_view view, optim::step_options step) {
  CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()) && !view.segments.empty());
  const kernels::adamw_coefficients decayed = clock_.advance(options_, step);
  for (std::size_t s = 0; s < view.segments.size(); ++s) {
    const parameter_segment& segment = view.segments[s];
    kernels::adamw_coefficients own = decayed;
    const std::int64_t at = segment.offset;
    const confined_pieces* const piece = find(segment.name);
    const bool keeps = piece != nullptr && piece->what == confined::row_changes;
    if (keeps || !optim::detail::decays(segment.kind)) own.weight_decay = 0.0F;
    if (piece != nullptr) {
      step_confined(pool, view, segment, piece->what, own);
    } else {
      kernels::adamw_update(pool, view.values.data() + at, view.gradients.data() + at, first_.data() + at,
                            second_.data() + at, segment.size(), own);
    }
  }
}

CAUSEWAY_DECL void subspace_adamw::use(thread_pool& pool, parameter_view view, subspace_basis basis,
                                       std::span<const float> initial) {
  basis_ = std::move(basis);
  for (const parameter_segment& segment : view.segments) {
    const confined_pieces* const piece = find(segment.name);
    if (piece == nullptr) continue;
    const auto offset = static_cast<std::size_t>(segment.offset), size = static_cast<std::size_t>(segment.size());
    const std::span<float> values = view.values.subspan(offset, size);
    const bool changes = piece->what == confined::row_changes;
    CAUSEWAY_EXPECT(!changes || initial.size() == view.values.size());
    if (changes) kernels::axpy(pool, values.data(), -1.0F, initial.data() + offset, segment.size());
    project(pool, piece->what, values);
    if (changes) kernels::axpy(pool, values.data(), 1.0F, initial.data() + offset, segment.size());
    project(pool, piece->what, {first_.data() + offset, size});
  }
}

CAUSEWAY_DECL const confined_pieces* subspace_adamw::find(std::string_view segment) const {
  const auto fits = [&](const confined_pieces& p) { return segment.ends_with(p.suffix); };
  const auto at = std::find_if(pieces_.begin(), pieces_.end(), fits);
  return at == pieces_.end() ? nullptr : &*at;
}

CAUSEWAY_DECL void subspace_adamw::project(thread_pool& pool, confined what, std::span<float> matrix) const {
  if (what == confined::columns) return basis_.project_columns(pool, matrix);
  basis_.project_rows(pool, matrix);
}

CAUSEWAY_DECL void subspace_adamw::step_confined(thread_pool& pool, const parameter_view& view,
                                                 const parameter_segment& segment, confined what,
                                                 const kernels::adamw_coefficients& coefficients) {
  const auto size = static_cast<std::size_t>(segment.size());
  const float* const from = view.gradients.data() + segment.offset;
  gradient_.resize(size);
  for (std::size_t i = 0; i < size; ++i) gradient_[i] = from[i] * coefficients.gradient_scale;
  project(pool, what, gradient_);
  const kernels::detail::adamw_factors c = kernels::detail::factors_of(coefficients);
  take_squares(pool, segment, what);
  rates_.resize(squares_.size());
  float* const second = second_.data() + segment.offset;  // one for each vector, at the start of the piece's place
  kernels::detail::dispatch<detail::confined_rates>(kernels::detect_simd_level(), squares_.data(), second, rates_.data(),
                                                    std::ssize(squares_),
                                                    what == confined::columns ? segment.rows : segment.columns, c);
  update(pool, view, segment, what, c);
}

CAUSEWAY_DECL void subspace_adamw::take_squares(thread_pool& pool, const parameter_segment& segment, confined what) {
  const auto level = kernels::detect_simd_level();
  const float* const g = gradient_.data();
  if (what == confined::columns) {
    squares_.resize(static_cast<std::size_t>(segment.columns));
    pool.for_range(segment.columns, 256, [&](index_range part) {
      kernels::detail::dispatch<detail::column_squares>(level, g, segment.rows, segment.columns, part, squares_.data());
    });
  } else {
    squares_.resize(static_cast<std::size_t>(segment.rows));
    kernels::detail::for_rows(pool, segment.rows, segment.columns, [&](index_range part) {
      for (std::int64_t r = part.begin; r < part.end; ++r) {
        const float* const row = g + r * segment.columns;
        squares_[static_cast<std::size_t>(r)] =
            kernels::detail::dispatch<kernels::detail::dot_product>(level, row, row, segment.columns);
      }
    });
  }
}

CAUSEWAY_DECL void subspace_adamw::update(thread_pool& pool, const parameter_view& view, const parameter_segment& segment,
                                          confined what, const kernels::detail::adamw_factors& c) {
  const auto level = kernels::detect_simd_level();
  kernels::detail::for_rows(pool, segment.rows, segment.columns, [&](index_range part) {
    for (std::int64_t r = part.begin; r < part.end; ++r) {
      const std::int64_t at = segment.offset + r * segment.columns;
      float* const p = view.values.data() + at;
      float* const m = first_.data() + at;
      const float* const g = gradient_.data() + r * segment.columns;
      const float* const rates = rates_.data();
      if (what == confined::columns) {
        kernels::detail::dispatch<detail::confined_update<true>>(level, p, g, m, rates, segment.columns, c);
      } else {
        kernels::detail::dispatch<detail::confined_update<false>>(level, p, g, m, rates + r, segment.columns, c);
      }
    }
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_SUBSPACE_ADAMW_IPP
