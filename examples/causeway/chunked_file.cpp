// SPDX-License-Identifier: Apache-2.0
#include "chunked_file.hpp"

#include <causeway/core/hash.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace app {
namespace {

namespace fs = std::filesystem;
using causeway::errc;
using causeway::fail;

std::uint64_t hash_of(std::span<const std::byte> bytes) { return causeway::hasher{}.add(bytes).finish(); }

}  // namespace

std::vector<std::uint64_t> chunk_hashes(const causeway::data::shard_image& image) {
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t at = 0; at < image.size(); at += chunk_bytes) hashes.push_back(hash_of(image.read(at, chunk_bytes)));
  return hashes;
}

std::size_t chunked_file::size_of(std::size_t chunk) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(chunk_bytes, size_ - begin_of(chunk)));
}

causeway::result<chunked_file> chunked_file::open(std::string path, std::uint64_t size, std::vector<std::uint64_t> hashes) {
  if (hashes.size() != (size + chunk_bytes - 1) / chunk_bytes) {
    return fail(errc::corrupt, path,
                "comes with a list of " + std::to_string(hashes.size()) + " hashes, which are not those of " +
                    std::to_string(size) + " bytes");
  }
  chunked_file file{std::move(path), size, std::move(hashes)};
  std::ifstream in{file.part(), std::ios::binary};
  std::vector<std::byte> chunk;
  for (std::size_t i = 0; in && i < file.hashes_.size(); ++i) {
    chunk.resize(file.size_of(i));
    in.read(reinterpret_cast<char*>(chunk.data()), static_cast<std::streamsize>(chunk.size()));
    file.here_[i] = in && hash_of(chunk) == file.hashes_[i] ? 1 : 0;
  }
  return file;
}

std::uint64_t chunked_file::missing_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < here_.size(); ++i) bytes += here_[i] != 0 ? 0 : size_of(i);
  return bytes;
}

causeway::result<void> chunked_file::fetch(std::size_t first, std::size_t last, const byte_reader& read,
                                           const std::function<void(std::size_t)>& came) {
  std::fstream out{part(), std::ios::in | std::ios::out | std::ios::binary};
  std::vector<std::byte> chunk;
  std::size_t index = first;
  const auto keep = [&](std::span<const std::byte> piece) -> causeway::result<void> {
    chunk.insert(chunk.end(), piece.begin(), piece.end());
    came(piece.size());
    if (chunk.size() < size_of(index)) return {};
    if (hash_of(chunk) != hashes_[index]) {
      return fail(errc::corrupt, path_,
                  "the text that came is not the run's: its hash differs; join at another peer, or give the text with "
                  "--data.path");
    }
    out.seekp(static_cast<std::streamoff>(begin_of(index)));
    out.write(reinterpret_cast<const char*>(chunk.data()), static_cast<std::streamsize>(chunk.size()));
    if (!out.flush()) return fail(errc::io_failed, part(), "cannot be written; see that the disk has room");
    here_[index++] = 1;
    chunk.clear();
    return {};
  };
  return read(begin_of(first), begin_of(last - 1) + size_of(last - 1) - begin_of(first), keep);
}

causeway::result<void> chunked_file::complete(const byte_reader& read, const std::function<void(std::size_t)>& came) {
  std::ofstream{part(), std::ios::binary | std::ios::app};  // so that it is there
  for (std::size_t first = 0; first < here_.size(); ++first) {
    if (here_[first] != 0) continue;
    const auto next = std::find(here_.begin() + static_cast<std::ptrdiff_t>(first), here_.end(), 1);
    CAUSEWAY_TRY(fetch(first, static_cast<std::size_t>(next - here_.begin()), read, came));
  }
  std::error_code failure;
  fs::resize_file(part(), size_, failure);
  if (!failure) fs::rename(part(), path_, failure);
  if (failure) return fail(errc::io_failed, path_, "cannot be given its name: " + failure.message());
  return {};
}

}  // namespace app
