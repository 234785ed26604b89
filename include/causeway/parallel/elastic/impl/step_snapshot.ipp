// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_SNAPSHOT_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_SNAPSHOT_IPP

#include <causeway/parallel/elastic/step_snapshot.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<std::array<std::vector<plan::unit_state>, 2>> decode_progress(std::span<const std::byte> bytes,
                                                                                   std::size_t micro_batches) {
  if (bytes.size() != 2 * micro_batches) return fail(errc::protocol, "", "its work is of another number of micro-batches");
  std::array<std::vector<plan::unit_state>, 2> rows;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > static_cast<std::byte>(plan::unit_state::done)) return fail(errc::corrupt, "", "no state of work");
    rows[i / micro_batches].push_back(static_cast<plan::unit_state>(bytes[i]));
  }
  return rows;
}

CAUSEWAY_DECL result<std::vector<std::vector<std::byte>>> gather_progress(net::any_transport& transport,
                                                                          const net::message_id& id,
                                                                          const any_step_snapshot* own,
                                                                          std::uint32_t micro_batches,
                                                                          const collective::collective_options& options) {
  std::vector<std::vector<std::byte>> all(transport.size());
  all[transport.self()] = own != nullptr ? own->progress() : std::vector<std::byte>{};
  if (all.size() == 1) return all;
  const std::vector<std::byte> mine = all[transport.self()];
  CAUSEWAY_TRY(collective::all_gather(transport, id, mine, 2 * std::size_t{micro_batches}, all, options));
  all[transport.self()] = mine;
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_SNAPSHOT_IPP
