// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TOKEN_CHUNKS_HPP
#define CAUSEWAY_EXAMPLES_TOKEN_CHUNKS_HPP

// The tokens of a run as chunks that peers send each other, each checked against its hash as it comes. What has come stays
// on disk, in PATH.part, when the connection or the program ends.

#include <causeway/core/result.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/net/asio_ask.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace app {

/// One piece of an inquiry.
inline constexpr std::size_t chunk_bytes = causeway::net::max_piece_bytes;

/// What the tokens of a run are: two shards, of which the second one may be missing, and the hash of each chunk of both.
struct chunk_list {
  std::uint64_t token_bytes = 0;
  std::uint64_t validation_bytes = 0;
  std::vector<std::uint64_t> hashes{};

  static chunk_list of(const causeway::data::shard_image& tokens,
                       const std::optional<causeway::data::shard_image>& validation);

  [[nodiscard]] std::size_t token_chunks() const { return chunks_in(token_bytes); }
  [[nodiscard]] std::size_t chunks() const { return token_chunks() + chunks_in(validation_bytes); }
  /// Equal where the tokens are.
  [[nodiscard]] std::uint64_t hash() const;

  [[nodiscard]] std::vector<std::byte> encode() const;
  static causeway::result<chunk_list> decode(std::span<const std::byte> bytes);

  static constexpr std::size_t chunks_in(std::uint64_t bytes) {
    return static_cast<std::size_t>((bytes + chunk_bytes - 1) / chunk_bytes);
  }
};

/// A file of which chunks are here and others are not. `has` and `path` from any thread, the rest from one.
class chunk_store {
 public:
  chunk_store(chunk_store&& other) noexcept;
  chunk_store& operator=(chunk_store&&) = delete;

  /// Looks at what of `path` is here already; makes the file of `size` bytes, with holes.
  static causeway::result<chunk_store> open(const std::string& path, std::uint64_t size,
                                            std::span<const std::uint64_t> hashes);

  [[nodiscard]] bool has(std::size_t chunk) const { return here_[chunk]; }
  [[nodiscard]] std::size_t chunks() const { return hashes_.size(); }
  [[nodiscard]] std::uint64_t missing_bytes() const;
  /// Where the bytes are now.
  [[nodiscard]] std::string path() const { return whole_ ? path_ : part(); }

  /// The bytes of one that is here. From any thread.
  [[nodiscard]] std::vector<std::byte> read(std::size_t chunk) const;

  /// errc::corrupt: not what its hash says.
  causeway::result<void> put(std::size_t chunk, std::span<const std::byte> bytes);

  /// Asks for chunks [first, last), which are neighbours.
  causeway::result<void> fetch(causeway::net::inquiry& from, std::uint32_t item, std::size_t first, std::size_t last,
                               const std::function<void(std::size_t)>& came);
  /// Asks for all that are missing.
  causeway::result<void> fetch_all(causeway::net::inquiry& from, std::uint32_t item,
                                   const std::function<void(std::size_t)>& came);

  /// Gives the file its name, if nothing is missing.
  causeway::result<void> finish();

 private:
  [[nodiscard]] std::string part() const { return path_ + ".part"; }
  [[nodiscard]] std::size_t size_of(std::size_t chunk) const;

  chunk_store(const std::string& path, std::uint64_t size, std::span<const std::uint64_t> hashes);

  std::string path_;
  std::uint64_t size_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::unique_ptr<std::atomic<bool>[]> here_;
  std::atomic<bool> whole_ = false;  // and has its name
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TOKEN_CHUNKS_HPP
