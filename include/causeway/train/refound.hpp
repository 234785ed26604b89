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

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

struct survivor {
  std::string folder;
  membership::durable_record record;
};

// What each folder knows of commits of other runs than `run`, the newest first: its record, and those beside stored states.
// A state is stored before it is voted for: one that is newer than every commit known may be nobody's.
CAUSEWAY_DECL std::vector<survivor> survivors_in(io::any_storage& storage, std::span<const std::string> folders,
                                                 std::uint64_t run);

}  // namespace detail

/// The newest commit of another run than `run` that any of the folders knows, whether or not its state is there.
CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint64_t> newest_round_known(io::any_storage storage,
                                                                            std::span<const std::string> folders,
                                                                            std::uint64_t run);

/// Makes the peer in `into` the founder of `run`, with the id `self`, from the newest commit among `folders` whose state is
/// there, whole; rounds after it are lost (newest_round_known, asked before, says how many), and their samples are trained
/// on again. What it writes comes with the record last, so that a crash leaves `into` as it was or done. The others
/// join as anybody does. errc::not_found if no folder has both a record and its state. Cost: reads and writes the shared
/// state once.
CAUSEWAY_DECL result<membership::durable_record> refound(io::any_storage storage, std::span<const std::string> folders,
                                                         const std::string& into, std::uint64_t run, net::peer_id self);

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/refound.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_REFOUND_HPP
