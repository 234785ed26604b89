// SPDX-License-Identifier: Apache-2.0
#include "run_notice.hpp"

#include <causeway/data/token_shard.hpp>
#include <causeway/io/file.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "chunked_file.hpp"
#include "report.hpp"
#include "text_tokens.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;
using causeway::data::shard_image;

constexpr std::uint32_t notice_item = 0, tokenizer_item = 1, tokens_item = 2, validation_item = 3, hashes_item = 4;
constexpr std::size_t longest_settings = std::size_t{48} << 10U;

std::uint64_t size_of(const std::string& path) {
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  return failure ? 0 : size;
}

std::vector<std::byte> read_piece(const std::string& path, std::uint64_t offset) {
  std::vector<std::byte> piece(net::max_piece_bytes);
  std::ifstream file{path, std::ios::binary};
  if (!file.seekg(static_cast<std::streamoff>(std::min<std::uint64_t>(offset, run_notice::longest_tokens)))) return {};
  file.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
  piece.resize(static_cast<std::size_t>(file.gcount()));
  return piece;
}

// To disk piece by piece, whole or not at all.
causeway::result<void> fetch_file(net::inquiry& from, std::uint32_t item, std::uint64_t length, const std::string& path) {
  causeway::io::posix_storage storage;
  return storage.write_atomic(path, [&](const causeway::io::byte_sink& sink) { return from.read(item, 0, length, sink); });
}

constexpr std::uint64_t chunks_of(std::uint64_t bytes) { return (bytes + chunk_bytes - 1) / chunk_bytes; }

// The hashes of the chunks of all tokens, then those of validation.
causeway::result<std::vector<std::uint64_t>> fetch_hashes(net::inquiry& from, const run_notice& notice) {
  std::vector<std::uint64_t> hashes(chunks_of(notice.token_bytes) + chunks_of(notice.validation_bytes));
  std::vector<std::byte> bytes;
  CAUSEWAY_TRY(from.read(hashes_item, 0, hashes.size() * sizeof(std::uint64_t), [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return causeway::result<void>{};
  }));
  net::byte_reader in{bytes};
  for (std::uint64_t& hash : hashes) hash = in.get<std::uint64_t>();
  CAUSEWAY_TRY(in.finish("hashes of the run's tokens"));
  return hashes;
}

// What is not here yet of all tokens and of those for validation.
causeway::result<void> fetch_tokens(net::inquiry& from, const run_notice& notice, const prepared_files& files, bool quiet) {
  CAUSEWAY_ASSIGN(std::vector<std::uint64_t> hashes, fetch_hashes(from, notice));
  const auto first = hashes.begin() + static_cast<std::ptrdiff_t>(chunks_of(notice.token_bytes));
  CAUSEWAY_ASSIGN(chunked_file validation,
                  chunked_file::open(files.validation, notice.validation_bytes, {first, hashes.end()}));
  CAUSEWAY_ASSIGN(chunked_file tokens, chunked_file::open(files.tokens, notice.token_bytes, {hashes.begin(), first}));
  const std::uint64_t missing = tokens.missing_bytes() + validation.missing_bytes();
  const std::uint64_t all = notice.token_bytes + notice.validation_bytes;
  if (!quiet) {
    std::printf("fetching %s of the text (%s)\n", human_bytes(static_cast<double>(missing)).c_str(),
                human_bytes(static_cast<double>(all)).c_str());
    std::fflush(stdout);
  }
  byte_line line{"fetching", quiet};
  std::uint64_t done = 0;
  const auto came = [&](std::size_t bytes) { line.show(done += bytes, missing); };
  const auto reader = [&](std::uint32_t item) {
    return [&from, item](std::uint64_t offset, std::uint64_t length, const auto& sink) {
      return from.read(item, offset, length, sink);
    };
  };
  if (notice.validation_bytes > 0) CAUSEWAY_TRY(validation.complete(reader(validation_item), came));
  return tokens.complete(reader(tokens_item), came);
}

bool is_here(const settings& s, const std::string& folder, std::uint64_t hash) {
  const auto kept = kept_corpus(s, folder);
  return kept && kept->hash == hash;
}

}  // namespace

std::vector<std::byte> run_notice::encode() const {
  net::byte_writer out;
  out.put(text_hash).put(tokenizer_bytes).put(token_bytes).put(validation_bytes).put_text(settings);
  return std::move(out).take();
}

causeway::result<run_notice> run_notice::decode(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  run_notice n;
  n.text_hash = in.get<std::uint64_t>();
  n.tokenizer_bytes = in.get<std::uint64_t>();
  n.token_bytes = in.get<std::uint64_t>();
  n.validation_bytes = in.get<std::uint64_t>();
  const bool short_enough = n.token_bytes <= longest_tokens && n.validation_bytes <= longest_tokens;
  if (n.tokenizer_bytes > longest_tokenizer || !short_enough) in.refuse();
  const auto text = in.get_bytes(longest_settings);
  n.settings.assign(reinterpret_cast<const char*>(text.data()), text.size());
  CAUSEWAY_TRY(in.finish("what the run says of itself"));
  return n;
}

causeway::result<net::piece_source> tell_newcomers(settings& s, const std::string& folder, const corpus& data) {
  const prepared_files files{folder};
  run_notice notice{.text_hash = data.hash, .settings = to_toml(s, true)};
  if (s.data.tokenizer != "bytes") notice.tokenizer_bytes = size_of(files.tokenizer);
  const auto width = data.codec.width();
  const auto all = shard_image::make(data.main_tokens(), width);
  std::optional<shard_image> validation;
  if (all && data.has_own_validation) {
    CAUSEWAY_ASSIGN(validation, shard_image::make(data.tokens.validation, width));
    notice.validation_bytes = validation->size();
  }
  std::vector<std::uint64_t> hashes;
  if (all) {
    notice.token_bytes = all->size();
    hashes = chunk_hashes(*all);
  }
  if (validation) {
    const auto more = chunk_hashes(*validation);
    hashes.insert(hashes.end(), more.begin(), more.end());
  }
  net::byte_writer listed;
  for (const std::uint64_t hash : hashes) listed.put(hash);
  std::vector<std::byte> first = notice.encode();
  if (first.size() > net::max_piece_bytes) return fail(errc::too_large, folder, "its settings are too long to be sent");
  return net::piece_source{[files, all, validation, first = std::move(first), list = std::move(listed).take()](
                               std::uint32_t item, std::uint64_t offset) {
    if (item == notice_item) return first;
    if (item == hashes_item) {
      const auto begin = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, list.size()));
      const auto end = std::min<std::ptrdiff_t>(begin + std::ptrdiff_t{net::max_piece_bytes}, std::ssize(list));
      return std::vector<std::byte>{list.begin() + begin, list.begin() + end};
    }
    if (item == tokenizer_item) return read_piece(files.tokenizer, offset);
    if (item == tokens_item && all) return all->read(offset, net::max_piece_bytes);
    if (item == validation_item && validation) return validation->read(offset, net::max_piece_bytes);
    return std::vector<std::byte>{};
  }};
}

causeway::result<void> fetch_text(net::inquiry& from, const run_notice& notice, const settings& s,
                                  const std::string& folder) {
  if (is_here(s, folder, notice.text_hash)) return {};
  if (notice.token_bytes == 0) {
    return fail(errc::too_large, "data.path", "the run's tokens are too many to be sent; give them here with --data.path");
  }
  const prepared_files files{folder};
  std::error_code ignored;
  fs::remove(files.key, ignored);  // what it spoke for is replaced
  fs::remove(files.validation, ignored);
  if (notice.tokenizer_bytes > 0) {
    CAUSEWAY_TRY(fetch_file(from, tokenizer_item, notice.tokenizer_bytes, files.tokenizer));
  }
  CAUSEWAY_TRY(fetch_tokens(from, notice, files, s.quiet));
  if (is_here(s, folder, notice.text_hash)) return {};
  for (const auto* path : {&files.tokens, &files.validation, &files.tokenizer}) fs::remove(*path, ignored);
  return fail(
      errc::corrupt, folder,
      "the text that came is not the run's: its hash differs; join at another peer, or give the text with --data.path");
}

}  // namespace app
