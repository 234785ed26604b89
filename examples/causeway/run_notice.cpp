// SPDX-License-Identifier: Apache-2.0
#include "run_notice.hpp"

#include <causeway/io/file.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "corpus.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;

constexpr std::uint32_t notice_item = 0, tokenizer_item = 1, tokens_item = 2;
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

bool is_here(const settings& s, const std::string& folder, std::uint64_t hash) {
  const auto kept = kept_corpus(s, folder);
  return kept && kept->hash == hash;
}

}  // namespace

std::vector<std::byte> run_notice::encode() const {
  net::byte_writer out;
  out.put(text_hash).put(tokenizer_bytes).put(token_bytes).put_text(settings);
  return std::move(out).take();
}

causeway::result<run_notice> run_notice::decode(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  run_notice n;
  n.text_hash = in.get<std::uint64_t>();
  n.tokenizer_bytes = in.get<std::uint64_t>();
  n.token_bytes = in.get<std::uint64_t>();
  if (n.tokenizer_bytes > longest_tokenizer || n.token_bytes > longest_tokens) in.refuse();
  const auto text = in.get_bytes(longest_settings);
  n.settings.assign(reinterpret_cast<const char*>(text.data()), text.size());
  CAUSEWAY_TRY(in.finish("what the run says of itself"));
  return n;
}

causeway::result<net::piece_source> tell_newcomers(settings& s, const std::string& folder, std::uint64_t text_hash) {
  const prepared_files files{folder};
  run_notice notice{.text_hash = text_hash, .token_bytes = size_of(files.tokens), .settings = to_toml(s, true)};
  if (s.data.tokenizer != "bytes") notice.tokenizer_bytes = size_of(files.tokenizer);
  std::vector<std::byte> first = notice.encode();
  if (first.size() > net::max_piece_bytes) return fail(errc::too_large, folder, "its settings are too long to be sent");
  return net::piece_source{[files, first = std::move(first)](std::uint32_t item, std::uint64_t offset) {
    if (item == notice_item) return first;
    if (item == tokenizer_item) return read_piece(files.tokenizer, offset);
    return item == tokens_item ? read_piece(files.tokens, offset) : std::vector<std::byte>{};
  }};
}

causeway::result<void> fetch_text(net::inquiry& from, const run_notice& notice, const settings& s,
                                  const std::string& folder) {
  if (is_here(s, folder, notice.text_hash)) return {};
  if (!s.quiet) std::printf("fetching the text (%.1f MB) ...\n", static_cast<double>(notice.token_bytes) / 1e6);
  const prepared_files files{folder};
  std::error_code ignored;
  fs::remove(files.key, ignored);  // what it spoke for is replaced
  if (notice.tokenizer_bytes > 0) {
    CAUSEWAY_TRY(fetch_file(from, tokenizer_item, notice.tokenizer_bytes, files.tokenizer));
  }
  CAUSEWAY_TRY(fetch_file(from, tokens_item, notice.token_bytes, files.tokens));
  if (is_here(s, folder, notice.text_hash)) return {};
  fs::remove(files.tokens, ignored);
  fs::remove(files.tokenizer, ignored);
  return fail(
      errc::corrupt, folder,
      "the text that came is not the run's: its hash differs; join at another peer, or give the text with --data.path");
}

}  // namespace app
