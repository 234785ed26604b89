// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_TIED_TABLE_IPP
#define CAUSEWAY_PARALLEL_IMPL_TIED_TABLE_IPP

#include <causeway/parallel/tied_table.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<std::uint64_t> holders_of_table(const stage::layout& l, std::int64_t layers) {
  std::vector<std::uint64_t> all = l.holders(0);
  for (const std::uint64_t peer : l.holders(layers - 1)) {
    if (std::find(all.begin(), all.end(), peer) == all.end()) all.push_back(peer);
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_IMPL_TIED_TABLE_IPP
