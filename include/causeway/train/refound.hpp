// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_REFOUND_HPP
#define CAUSEWAY_TRAIN_REFOUND_HPP

// Founds a run anew from what the peers of one that cannot go on have on disk. Done on the storage, while no process uses
// it: whoever starts as that peer afterwards finds itself the only member of the new run, and others join it as always.

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/refound.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/train/member_control.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI {

namespace detail {

struct survivor {
  std::string folder;
  membership::durable_record record;
};

// What each folder knows of commits of other runs than `run`, the newest first: its record, and those beside stored states.
// A state is stored before it is voted for: one that is newer than every commit known may be nobody's.
inline std::vector<survivor> survivors_in(io::any_storage& storage, std::span<const std::string> folders,
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

}  // namespace detail

/// The newest commit of another run than `run` that any of the folders knows, whether or not its state is there.
[[nodiscard]] inline std::optional<std::uint64_t> newest_round_known(io::any_storage storage,
                                                                     std::span<const std::string> folders,
                                                                     std::uint64_t run) {
  const auto known = detail::survivors_in(storage, folders, run);
  return known.empty() ? std::nullopt : std::optional{known.front().record.newest->round};
}

/// Makes the peer in `into` the founder of `run`, with the id `self`, from the newest commit among `folders` whose state is
/// there, whole; rounds after it are lost (newest_round_known, asked before, says how many), and their samples are trained
/// on again. What it writes comes with the record last, so that a crash leaves `into` as it was or done. The others
/// join as anybody does. errc::not_found if no folder has both a record and its state. Cost: reads and writes the shared
/// state once.
inline result<membership::durable_record> refound(io::any_storage storage, std::span<const std::string> folders,
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

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_REFOUND_HPP
