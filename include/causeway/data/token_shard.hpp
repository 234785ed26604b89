// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_DATA_TOKEN_SHARD_HPP
#define CAUSEWAY_DATA_TOKEN_SHARD_HPP

// The `.bin` token files of llm.c: a header of 256 int32 (magic, version, number of tokens, zeros), then the tokens, all
// little-endian. Two kinds: 20240520 version 1 with uint16 (GPT-2) and 20240801 version 7 with uint32 (Llama 3). And those
// of nanoGPT: tokens without a header, whose width somebody must say. Read through a memory map: opening a shard of any
// size costs nothing. See docs/reference/token_shards.md.

#include <causeway/core/result.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/storage.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace data {

namespace detail {

struct shard_kind {
  std::int32_t magic;
  std::int32_t version;
  token_width width;
};

constexpr std::array<shard_kind, 2> shard_kinds{{{20240520, 1, token_width::two}, {20240801, 7, token_width::four}}};
constexpr std::size_t shard_header_bytes = 256 * sizeof(std::int32_t);

using shard_header = std::array<std::int32_t, 256>;

/// The kind of shard, once header and file size fit each other.
CAUSEWAY_DECL result<shard_kind> checked_shard(const shard_header& header, std::size_t file_bytes, const std::string& path);

/// Gives `tokens` to `sink` as numbers of type T.
template <class T>
result<void> store_tokens(std::span<const std::int32_t> tokens, std::vector<T>& stored, const io::byte_sink& sink) {
  stored.clear();
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) > std::numeric_limits<T>::max()) {
      return fail(errc::invalid_argument, "token " + std::to_string(token),
                  "does not fit into " + std::to_string(sizeof(T)) + " bytes. Write the shard with four bytes per token");
    }
    stored.push_back(static_cast<T>(token));
  }
  return sink(std::as_bytes(std::span{stored}));
}

/// In parts, so that a large stream needs little memory.
template <class T>
result<void> write_tokens(const token_stream& tokens, const io::byte_sink& sink) {
  constexpr std::int64_t part = std::int64_t{1} << 16U;
  std::vector<std::int32_t> wide;
  std::vector<T> stored;
  for (std::int64_t at = 0; at < tokens.size(); at += part) {
    wide.resize(static_cast<std::size_t>(std::min(part, tokens.size() - at)));
    tokens.read(at, wide);
    CAUSEWAY_TRY(store_tokens<T>(wide, stored, sink));
  }
  return {};
}

CAUSEWAY_DECL result<void> check_fits_shard(std::int64_t tokens, const std::string& path);

CAUSEWAY_DECL shard_header header_of(std::int64_t tokens, token_width width);

/// A mapped file, for whoever shares it.
struct mapped_bytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

CAUSEWAY_DECL result<mapped_bytes> map_whole(const std::string& path);

/// What has no header, whatever it begins with.
CAUSEWAY_DECL result<token_stream> bare_tokens(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                               token_width width, const std::string& path);

}  // namespace detail

/// Maps the shard at `path`. Errors: errc::not_found, errc::corrupt (magic, size), errc::version_mismatch. The tokens
/// themselves are not read: `token_stream::check_vocabulary` does that.
CAUSEWAY_DECL result<token_stream> open_token_shard(const std::string& path);

/// Maps the tokens at `path`: a shard with a header, or, if `bare` says how wide its tokens are, one without. A file that
/// begins as one of llm.c is taken for that in any case. Errors: as `open_token_shard`; errc::unsupported for a file
/// without a header, where `bare` is not given.
CAUSEWAY_DECL result<token_stream> open_tokens(const std::string& path, std::optional<token_width> bare);

/// The same of the bytes of a file that are in memory, kept alive by `owner`. `path` is for messages.
CAUSEWAY_DECL result<token_stream> tokens_of_file(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                                  std::optional<token_width> bare, const std::string& path);

/// The bytes of a shard that holds `tokens`, read anywhere, without a file: for peers that send them to others.
class shard_image {
 public:
  /// The tokens must fit the width. errc::too_large: 2³¹ tokens or more.
  CAUSEWAY_DECL static result<shard_image> make(token_stream tokens, token_width width);

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t size() const noexcept;
  /// Bytes from `offset` on, at most `count`, cut to what exists.
  CAUSEWAY_DECL [[nodiscard]] io::byte_vector read(std::uint64_t offset, std::size_t count) const;

 private:
  shard_image(token_stream tokens, token_width width) : tokens_{std::move(tokens)}, width_{width} {}

  token_stream tokens_;
  token_width width_;
};

/// Writes a shard that `open_token_shard` and llm.c read. Errors: errc::invalid_argument (a token that does not fit),
/// errc::too_large (2³¹ tokens or more), and those of the storage.
template <io::Storage S>
result<void> write_token_shard(S& storage, const std::string& path, const token_stream& tokens, token_width width) {
  CAUSEWAY_TRY(detail::check_fits_shard(tokens.size(), path));
  const detail::shard_header header = detail::header_of(tokens.size(), width);
  return storage.write_atomic(path, [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::as_bytes(std::span{header})));
    if (width == token_width::two) return detail::write_tokens<std::uint16_t>(tokens, sink);
    return detail::write_tokens<std::uint32_t>(tokens, sink);
  });
}

// A token shard out of tokens that come bit by bit, nobody knows how many: they wait on disk, in a file beside the shard,
// so that memory does not limit what can be written. The shard appears whole, when it is finished, or not at all.

/// Not safe to share between threads.
class shard_builder {
 public:
  /// The folder of `path` must be there. Needs as much room beside the shard as the shard itself.
  CAUSEWAY_DECL static result<shard_builder> make(const std::string& path, token_width width);

  shard_builder(shard_builder&& other) noexcept;
  shard_builder& operator=(shard_builder&&) = delete;
  /// Removes what was not finished.
  ~shard_builder();

  /// Appends. errc::invalid_argument: a token that the width does not hold.
  CAUSEWAY_DECL result<void> add(std::span<const std::int32_t> tokens);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Writes the shard under its name. Nothing can be added after that.
  CAUSEWAY_DECL result<void> finish();

 private:
  CAUSEWAY_DECL shard_builder(std::string path, std::string waiting, token_width width,
                              io::posix_file_system::file_type file);

  std::string path_;
  std::string waiting_;  // where tokens wait; empty: nothing is left to remove
  token_width width_;
  std::optional<io::posix_file_system::file_type> file_;
  std::int64_t size_ = 0;
  std::vector<std::uint16_t> narrow_;
  std::vector<std::uint32_t> wide_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::data

#ifndef CAUSEWAY_COMPILED
#include <causeway/data/impl/token_shard.ipp>
#endif

#endif  // CAUSEWAY_DATA_TOKEN_SHARD_HPP
