// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TOKEN_FETCHER_HPP
#define CAUSEWAY_EXAMPLES_TOKEN_FETCHER_HPP

// The tokens of a run that this peer has not: brought from peers that have them while it trains, only those that it comes
// to. A thread fetches what a step waits for, and then what the next one will. What is here is given to others, too.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_ask.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "token_chunks.hpp"

namespace app {

/// Which item of an inquiry has what.
inline constexpr std::uint32_t notice_item = 0, tokenizer_item = 1, tokens_item = 2, validation_item = 3, hashes_item = 4;

/// Tokens [first, first + count) of a shard.
struct token_range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Safe to use from several threads.
class token_fetcher {
 public:
  /// `width`: bytes of a token. `sources`: addresses of peers, to begin with.
  token_fetcher(chunk_list list, chunk_store tokens, chunk_store validation, std::size_t width, std::int64_t vocabulary,
                std::uint64_t text_hash, std::vector<std::string> sources, std::chrono::seconds patience);
  ~token_fetcher();
  token_fetcher(const token_fetcher&) = delete;
  token_fetcher& operator=(const token_fetcher&) = delete;

  /// Another peer of the run.
  void hear_of(const std::string& address);

  /// Blocks until all of these are here. errc::unreachable when nobody has given anything for `patience`; errc::cancelled
  /// when the program is told to stop.
  causeway::result<void> need(std::uint32_t item, std::span<const token_range> ranges);
  /// They will be needed soon.
  void want(std::uint32_t item, std::span<const token_range> ranges);

  /// The bytes of one chunk, if they are here.
  [[nodiscard]] std::vector<std::byte> piece(std::uint32_t item, std::uint64_t offset) const;

  [[nodiscard]] const chunk_list& list() const { return list_; }

 private:
  // A chunk's number counts through both shards.
  [[nodiscard]] std::set<std::size_t> chunks_of(std::uint32_t item, std::span<const token_range> ranges) const;
  causeway::result<void> wait_for(std::unique_lock<std::mutex>& lock, std::set<std::size_t> chunks);
  [[nodiscard]] bool has(std::size_t chunk) const;
  [[nodiscard]] causeway::result<void> check(std::size_t chunk) const;
  void work();
  causeway::result<void> fetch(const std::vector<std::size_t>& chunks);
  causeway::result<void> connect();

  const chunk_list list_;
  chunk_store stores_[2];
  const std::size_t width_;
  const std::int64_t vocabulary_;
  const std::uint64_t text_hash_;
  const std::chrono::seconds patience_;
  std::optional<causeway::net::inquiry> there_;  // of the thread alone
  std::size_t next_source_ = 0;                  // the one that gave something, as long as it does

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> sources_;
  std::set<std::size_t> urgent_;
  std::set<std::size_t> later_;
  std::set<std::size_t> checked_;           // all tokens in it are of the vocabulary
  std::optional<causeway::error> failure_;  // the last one, since something came
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TOKEN_FETCHER_HPP
