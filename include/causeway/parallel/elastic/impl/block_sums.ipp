// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SUMS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SUMS_IPP

#include <causeway/parallel/elastic/block_sums.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<shared_run> shared_runs(const stage::layout& l, std::int64_t layers) {
  std::vector<shared_run> runs;
  for (std::int64_t b = 0; b < layers; ++b) {
    auto holders = l.holders(b);
    if (!runs.empty() && runs.back().holders == holders) {
      runs.back().blocks.last = b + 1;
    } else {
      runs.push_back({{b, b + 1}, std::move(holders)});
    }
  }
  return runs;
}

CAUSEWAY_DECL result<void> sum_over(net::any_transport& transport, const net::message_id& id,
                                    std::span<const std::uint64_t> holders,
                                    const std::map<std::uint64_t, net::peer_index>& index_of, std::span<float> values,
                                    const collective::collective_options& options) {
  if (holders.size() < 2 || values.empty()) return {};
  std::vector<net::peer_index> peers;
  for (const std::uint64_t holder : holders) peers.push_back(index_of.at(holder));
  collective::group_view view{transport, std::move(peers)};
  return collective::all_reduce_sum(view, id, values, options);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SUMS_IPP
