// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_EXPERT_DIRECTORY_IPP
#define CAUSEWAY_STAGE_IMPL_EXPERT_DIRECTORY_IPP

#include <causeway/stage/expert_directory.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL expert_grid::expert_grid(std::vector<std::uint32_t> sides)
    : sides_{std::move(sides)}, below_(sides_.size(), 1) {
  CAUSEWAY_EXPECT(!sides_.empty() && sides_.size() <= 16);
  for (std::size_t i = sides_.size(); i > 0; --i) {
    CAUSEWAY_EXPECT(sides_[i - 1] >= 1 && count_ <= (std::uint64_t{1} << 62U) / sides_[i - 1]);
    below_[i - 1] = count_;
    count_ *= sides_[i - 1];
    heads_ += sides_[i - 1];
  }
}

CAUSEWAY_DECL std::uint32_t expert_grid::coordinate(expert_id e, std::size_t axis) const noexcept {
  return static_cast<std::uint32_t>(e / below_[axis] % sides_[axis]);
}

CAUSEWAY_DECL expert_directory::expert_directory(expert_grid grid) : grid_{std::move(grid)} {}

CAUSEWAY_DECL bool expert_directory::contains(expert_id e) const { return alive_.contains(e); }

CAUSEWAY_DECL void expert_directory::remove(expert_id e) { alive_.erase(e); }

CAUSEWAY_DECL void expert_directory::announce(expert_id e, time_point until) {
  CAUSEWAY_EXPECT(e < grid_.places());
  time_point& known = alive_.try_emplace(e, until).first->second;
  if (known < until) known = until;
}

CAUSEWAY_DECL void expert_directory::expire(time_point now) {
  std::erase_if(alive_, [&](const auto& entry) { return entry.second <= now; });
}

CAUSEWAY_DECL void expert_directory::extensions(expert_id prefix, std::size_t axis, std::vector<std::uint32_t>& out) const {
  out.clear();
  const std::uint64_t each = grid_.below(axis), side = grid_.sides()[axis];
  const expert_id first = prefix * side * each, last = first + side * each;
  for (auto at = alive_.lower_bound(first); at != alive_.end() && at->first < last;) {
    const std::uint64_t place = (at->first - first) / each;
    out.push_back(static_cast<std::uint32_t>(place));
    at = alive_.lower_bound(first + (place + 1) * each);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_EXPERT_DIRECTORY_IPP
