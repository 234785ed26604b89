// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEMBER_RECORD_HPP
#define CAUSEWAY_TRAIN_MEMBER_RECORD_HPP

// The file in which a member keeps who it is and what it has promised.

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

// The record is in its file twice, so that one damaged place costs nothing: without it this peer would be somebody else.
CAUSEWAY_DECL result<membership::durable_record> read_member_record(io::any_storage& storage, const std::string& folder);

CAUSEWAY_DECL result<void> write_member_record(io::any_storage& storage, const std::string& folder,
                                               const std::vector<std::byte>& bytes);

}  // namespace detail

/// The identity that this storage has in a run, or `fresh` if it has none: a record that is torn or lost is no identity.
CAUSEWAY_DECL net::peer_id member_identity(io::any_storage storage, const std::string& folder, std::uint64_t run,
                                           net::peer_id fresh);

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/member_record.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_MEMBER_RECORD_HPP
