// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_MODEL_PART_IPP
#define CAUSEWAY_NN_IMPL_MODEL_PART_IPP

#include <causeway/nn/model_part.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL stage_way stage_way::of(const block_range& r, std::int64_t blocks, bool joined_ends,
                                      bool has_input) noexcept {
  if (!joined_ends) return {r, r.first == 0, r.last == blocks};
  const bool first = r.first == 0, whole = first && r.last == blocks;
  return {
      {std::max<std::int64_t>(r.first - 1, 0), r.last - 1}, whole || (first && !has_input), whole || (first && has_input)};
}

CAUSEWAY_DECL model_part::model_part(std::vector<block_range> ranges) : ranges_{std::move(ranges)} {}

CAUSEWAY_DECL model_part::model_part(block_range range) : ranges_{range} {}

CAUSEWAY_DECL model_part model_part::ends() {
  model_part p;
  p.has_blocks_ = false;
  return p;
}

CAUSEWAY_DECL model_part model_part::blocks_alone(block_range range) {
  model_part p{range};
  p.has_ends_ = false;
  return p;
}

CAUSEWAY_DECL std::vector<block_range> model_part::ranges(std::int64_t layers) const {
  if (!has_blocks_) return {};
  return ranges_.empty() ? std::vector<block_range>{{0, layers}} : ranges_;
}

CAUSEWAY_DECL bool model_part::is_whole(std::int64_t layers) const {
  if (!has_blocks_ || !has_ends_) return false;
  return ranges_.empty() || (ranges_.size() == 1 && ranges_[0] == block_range{0, layers});
}

CAUSEWAY_DECL bool model_part::holds(const block_range& wanted) const noexcept {
  if (!has_blocks_) return false;
  return ranges_.empty() || std::any_of(ranges_.begin(), ranges_.end(), [&wanted](const block_range& r) {
           return r.first <= wanted.first && wanted.last <= r.last;
         });
}

CAUSEWAY_DECL bool model_part::holds_parameters(std::int64_t block, std::int64_t layers) const noexcept {
  const bool end = block < 0 || block >= layers;
  if (!has_blocks_) return end;
  if (!has_ends_) return !end && holds(block);
  return holds(std::clamp(block, std::int64_t{0}, layers - 1));
}

CAUSEWAY_DECL result<void> model_part::check(std::int64_t layers) const {
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

CAUSEWAY_DECL std::string model_part::text(const block_range& r) {
  return "[" + std::to_string(r.first) + ", " + std::to_string(r.last) + ")";
}

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_MODEL_PART_IPP
