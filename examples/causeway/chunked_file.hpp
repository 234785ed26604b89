// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHUNKED_FILE_HPP
#define CAUSEWAY_EXAMPLES_CHUNKED_FILE_HPP

// A large file that comes from another peer in chunks, each checked against its hash as it comes. What has come stays on
// disk, in PATH.part, when the connection or the program ends: only what is missing is fetched the next time, from whoever
// has it.

#include <causeway/core/result.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/net/asio_ask.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

/// Whole pieces of an inquiry, so that any range of chunks can be asked for.
inline constexpr std::size_t chunk_bytes = 16 * causeway::net::max_piece_bytes;

/// Of each chunk; the last one may be shorter.
std::vector<std::uint64_t> chunk_hashes(const causeway::data::shard_image& image);

class chunked_file {
 public:
  /// Looks at what of `path` is here already. `hashes`: one for each chunk of `size` bytes.
  static causeway::result<chunked_file> open(std::string path, std::uint64_t size, std::vector<std::uint64_t> hashes);

  [[nodiscard]] std::uint64_t missing_bytes() const;

  /// Reads bytes [offset, offset + length) from somebody.
  using byte_reader =
      std::function<causeway::result<void>(std::uint64_t offset, std::uint64_t length,
                                           const std::function<causeway::result<void>(std::span<const std::byte>)>&)>;

  /// Fetches what is missing, then gives the file its name. `came` hears how many bytes came. errc::corrupt: a chunk that
  /// is not what its hash says; those before it stay.
  causeway::result<void> complete(const byte_reader& read, const std::function<void(std::size_t)>& came);

 private:
  chunked_file(std::string path, std::uint64_t size, std::vector<std::uint64_t> hashes)
      : path_{std::move(path)}, size_{size}, hashes_{std::move(hashes)}, here_(hashes_.size()) {}

  [[nodiscard]] std::string part() const { return path_ + ".part"; }
  [[nodiscard]] std::uint64_t begin_of(std::size_t chunk) const { return chunk * std::uint64_t{chunk_bytes}; }
  [[nodiscard]] std::size_t size_of(std::size_t chunk) const;
  causeway::result<void> fetch(std::size_t first, std::size_t last, const byte_reader& read,
                               const std::function<void(std::size_t)>& came);

  std::string path_;
  std::uint64_t size_;
  std::vector<std::uint64_t> hashes_;
  std::vector<char> here_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHUNKED_FILE_HPP
