// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_REFOUND_IPP
#define CAUSEWAY_TRAIN_IMPL_REFOUND_IPP

#include <causeway/train/refound.hpp>

#include <causeway/train/write_behind.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL std::vector<survivor> survivors_in(io::any_storage& storage, std::span<const std::string> folders,
                                                 std::uint64_t run) {
  std::vector<survivor> found;
  for (const std::string& folder : folders) {
    auto record = read_member_record(storage, folder);
    if (record && record->newest && record->run != run) found.push_back({folder, std::move(*record)});
  }
  std::uint64_t newest = found.empty() ? UINT64_MAX : 0;
  for (const survivor& s : found) newest = std::max(newest, s.record.newest->round);
  for (const std::string& folder : folders) {
    for (auto& record : membership::round_store{storage, folder + "/rounds"}.records()) {
      if (record.run != run && record.newest->round <= newest) found.push_back({folder, std::move(record)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const survivor& a, const survivor& b) { return a.record.newest->round > b.record.newest->round; });
  return found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL std::optional<std::uint64_t> newest_round_known(io::any_storage storage, std::span<const std::string> folders,
                                                              std::uint64_t run) {
  const auto known = detail::survivors_in(storage, folders, run);
  return known.empty() ? std::nullopt : std::optional{known.front().record.newest->round};
}

CAUSEWAY_DECL result<membership::durable_record> refound(io::any_storage storage, std::span<const std::string> folders,
                                                         const std::string& into, std::uint64_t run, net::peer_id self) {
  std::string why = "none has a record of the membership";
  for (const auto& from : detail::survivors_in(storage, folders, run)) {
    const auto founded = membership::refounded(from.record, run, self);
    membership::round_store old{storage, from.folder + "/rounds"};
    membership::round_store fresh{storage, into + "/rounds"};
    const auto taken = fresh.take_over(old, founded.newest->state, run, founded.newest->round);
    if (!taken) {
      why = taken.error().text();
      continue;
    }
    CAUSEWAY_TRY(detail::write_member_record(storage, into, membership::encode(founded)));
    return founded;
  }
  return fail(errc::not_found, folders.empty() ? into : folders.front(),
              "no folder here has both a committed round and its state (" + why +
                  "); copy the folder of a peer that was in the last rounds here");
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_REFOUND_IPP
