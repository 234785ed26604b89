// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PATH_ROUTER_HPP
#define CAUSEWAY_EXAMPLES_PATH_ROUTER_HPP

// Where a run whose peers train paths sends a text: features of its first tokens, and the routers that its peers keep.

#include <causeway/core/result.hpp>
#include <causeway/data/document_router.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/io/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "settings.hpp"

namespace app {

/// A row of features for each text, made by the model that the run began with: of the `prefix` tokens from each of `firsts`
/// on. That model is built for it, which takes its memory as long as this takes.
causeway::result<std::vector<float>> features_of(const settings& s, std::int64_t vocabulary,
                                                 const causeway::data::token_stream& tokens,
                                                 std::span<const std::int64_t> firsts, std::int64_t prefix);

/// Whether a router is for the features and the paths of this run.
[[nodiscard]] bool fits(const causeway::data::document_router& router, const settings& s);
/// No router of this run has more bytes.
[[nodiscard]] std::size_t router_bytes(const settings& s);

/// Writes a router that is used from `step` on into a peer's folder.
causeway::result<void> keep_router(causeway::io::any_storage& storage, const std::string& folder, std::uint64_t step,
                                   std::span<const std::byte> router);
/// Where peers come and go: notes in a peer's folder which path its checkpoints are of, and reads that.
causeway::result<void> note_path(causeway::io::any_storage& storage, const std::string& folder, std::uint32_t path);
causeway::result<std::uint32_t> noted_path(const std::string& folder);
/// The newest there that was made up to `step`. errc::not_found if there is none.
causeway::result<causeway::data::document_router> kept_router(const std::string& folder, std::uint64_t step);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PATH_ROUTER_HPP
