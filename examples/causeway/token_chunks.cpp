// SPDX-License-Identifier: Apache-2.0
#include "token_chunks.hpp"

#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/codec.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;

std::uint64_t hash_of(std::span<const std::byte> bytes) { return causeway::hasher{}.add(bytes).finish(); }

void add_hashes(const causeway::data::shard_image& image, std::vector<std::uint64_t>& hashes) {
  for (std::uint64_t at = 0; at < image.size(); at += chunk_bytes) hashes.push_back(hash_of(image.read(at, chunk_bytes)));
}

}  // namespace

chunk_list chunk_list::of(const causeway::data::shard_image& tokens,
                          const std::optional<causeway::data::shard_image>& validation) {
  chunk_list list{tokens.size(), validation ? validation->size() : 0};
  add_hashes(tokens, list.hashes);
  if (validation) add_hashes(*validation, list.hashes);
  return list;
}

std::uint64_t chunk_list::hash() const {
  return causeway::mix(token_bytes, validation_bytes, hash_of(std::as_bytes(std::span{hashes})));
}

std::vector<std::byte> chunk_list::encode() const {
  net::byte_writer out;
  out.put(token_bytes).put(validation_bytes);
  for (const std::uint64_t hash : hashes) out.put(hash);
  return std::move(out).take();
}

causeway::result<chunk_list> chunk_list::decode(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  chunk_list list;
  list.token_bytes = in.get<std::uint64_t>();
  list.validation_bytes = in.get<std::uint64_t>();
  const std::size_t left = bytes.size() / sizeof(std::uint64_t);
  if (left < 2 || list.chunks() != left - 2) in.refuse();
  for (std::size_t i = 0; in.ok() && i < left - 2; ++i) list.hashes.push_back(in.get<std::uint64_t>());
  CAUSEWAY_TRY(in.finish("the list of the run's tokens"));
  return list;
}

std::size_t chunk_store::size_of(std::size_t chunk) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(chunk_bytes, size_ - chunk * std::uint64_t{chunk_bytes}));
}

chunk_store::chunk_store(const std::string& path, std::uint64_t size, std::span<const std::uint64_t> hashes)
    : path_{path},
      size_{size},
      hashes_{hashes.begin(), hashes.end()},
      here_{std::make_unique<std::atomic<bool>[]>(hashes.size())} {}

chunk_store::chunk_store(chunk_store&& other) noexcept
    : path_{std::move(other.path_)},
      size_{other.size_},
      hashes_{std::move(other.hashes_)},
      here_{std::move(other.here_)},
      whole_{other.whole_.load()} {}

causeway::result<chunk_store> chunk_store::open(const std::string& path, std::uint64_t size,
                                                std::span<const std::uint64_t> hashes) {
  chunk_store store{path, size, hashes};
  if (size == 0) return store;
  std::error_code failure;
  store.whole_ = fs::exists(path, failure);
  if (!store.whole_) {
    std::ofstream{store.part(), std::ios::binary | std::ios::app};  // so that it is there
    fs::resize_file(store.part(), size, failure);
    if (failure) return fail(errc::io_failed, store.part(), "cannot be made: " + failure.message());
  }
  std::ifstream in{store.path(), std::ios::binary};
  std::vector<std::byte> chunk;
  for (std::size_t i = 0; in && i < hashes.size(); ++i) {
    chunk.resize(store.size_of(i));
    in.read(reinterpret_cast<char*>(chunk.data()), static_cast<std::streamsize>(chunk.size()));
    store.here_[i] = in && hash_of(chunk) == hashes[i];
  }
  return store;
}

std::uint64_t chunk_store::missing_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < chunks(); ++i) bytes += has(i) ? 0 : size_of(i);
  return bytes;
}

std::vector<std::byte> chunk_store::read(std::size_t chunk) const {
  std::ifstream in{part(), std::ios::binary};
  if (!in) in.open(path_, std::ios::binary);  // it got its name, maybe just now
  std::vector<std::byte> bytes(size_of(chunk));
  in.seekg(static_cast<std::streamoff>(chunk * std::uint64_t{chunk_bytes}));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) bytes.clear();
  return bytes;
}

causeway::result<void> chunk_store::put(std::size_t chunk, std::span<const std::byte> bytes) {
  if (bytes.size() != size_of(chunk) || hash_of(bytes) != hashes_[chunk]) {
    return fail(errc::corrupt, path_,
                "the text that came is not the run's: its hash differs; join at another peer, or give the text with "
                "--data.path");
  }
  std::fstream out{part(), std::ios::in | std::ios::out | std::ios::binary};
  out.seekp(static_cast<std::streamoff>(chunk * std::uint64_t{chunk_bytes}));
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) return fail(errc::io_failed, part(), "cannot be written; see that the disk has room");
  here_[chunk] = true;
  return {};
}

causeway::result<void> chunk_store::fetch(net::inquiry& from, std::uint32_t item, std::size_t first, std::size_t last,
                                          const std::function<void(std::size_t)>& came) {
  const std::uint64_t begin = first * std::uint64_t{chunk_bytes};
  const std::uint64_t length = (last - 1 - first) * std::uint64_t{chunk_bytes} + size_of(last - 1);
  return from.read(item, begin, length, [&](std::span<const std::byte> piece) -> causeway::result<void> {
    CAUSEWAY_TRY(put(first++, piece));
    came(piece.size());
    return {};
  });
}

causeway::result<void> chunk_store::fetch_all(net::inquiry& from, std::uint32_t item,
                                              const std::function<void(std::size_t)>& came) {
  for (std::size_t first = 0; first < chunks(); ++first) {
    std::size_t last = first;
    while (last < chunks() && !has(last)) ++last;
    if (last > first) CAUSEWAY_TRY(fetch(from, item, first, last, came));
  }
  return finish();
}

causeway::result<void> chunk_store::finish() {
  if (size_ == 0 || whole_ || missing_bytes() > 0) return {};
  std::error_code failure, ignored;
  fs::rename(part(), path_, failure);
  whole_ = !failure || fs::exists(path_, ignored);  // another process here may have been quicker
  if (whole_) return {};
  return fail(errc::io_failed, path_, "cannot be given its name: " + failure.message());
}

}  // namespace app
