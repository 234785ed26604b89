// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_NOTICE_HPP
#define CAUSEWAY_EXAMPLES_RUN_NOTICE_HPP

// What a run tells somebody who has nothing but an address of it: its settings, and, to whoever has not got the text, the
// tokenizer and the tokens that it made of it. net/asio_ask.hpp carries both.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_ask.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "settings.hpp"

namespace app {

struct run_notice {
  std::uint64_t text_hash = 0;         ///< of the tokens, and of how the text is cut into them
  std::uint64_t tokenizer_bytes = 0;   ///< of the file; 0: the tokens are bytes
  std::uint64_t token_bytes = 0;       ///< of a shard of all tokens; 0: they are too many to be sent
  std::uint64_t validation_bytes = 0;  ///< of a shard of those for validation; 0: they are a share of the others
  std::string settings{};              ///< TOML

  static constexpr std::uint64_t longest_tokenizer = std::uint64_t{64} << 20U;
  static constexpr std::uint64_t longest_tokens = (std::uint64_t{8} << 30U) + 1024;  ///< a shard has no more

  [[nodiscard]] std::vector<std::byte> encode() const;
  static causeway::result<run_notice> decode(std::span<const std::byte> bytes);
};

/// What a peer tells of a run that trains on `data`, and that keeps its tokenizer in `folder`.
causeway::result<causeway::net::piece_source> tell_newcomers(settings& s, const std::string& folder, const corpus& data);

/// Brings the prepared text of a run from whoever answers `from` to `folder`, checked against its hash: after that
/// `prepare_corpus` needs no data.path. Nothing happens if it is there already; what came before a connection ended is not
/// fetched again. Of a run of changing peers only the list of chunks: its tokens come while it trains (`token_fetcher`).
/// errc::corrupt: another text came.
causeway::result<void> fetch_text(causeway::net::inquiry& from, const run_notice& notice, const settings& s,
                                  const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_NOTICE_HPP
