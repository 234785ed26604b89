// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_MEMORY_STORAGE_HPP
#define CAUSEWAY_IO_MEMORY_STORAGE_HPP

// A disk in memory that can be told to fail. Its faults are those of real disks: a write that is refused, a write that was
// reported done but kept only a prefix (power loss on a disk that ignores fsync), a full disk, a flipped bit.

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::io {

/// What goes wrong. Writes are counted from 1 over the life of the storage.
struct storage_faults {
  static constexpr std::uint64_t never = 0;
  static constexpr std::size_t unlimited = ~std::size_t{0};

  std::uint64_t fail_write = never;  ///< this write gives errc::io_failed and changes nothing
  std::uint64_t tear_write = never;  ///< this write succeeds, but only its first `tear_at` bytes are kept
  std::size_t tear_at = 0;           ///< byte
  std::uint64_t flip_write = never;  ///< this write succeeds, but bit `flip_bit` (modulo the length) is wrong
  std::uint64_t flip_bit = 0;        ///< bit
  std::size_t capacity = unlimited;  ///< bytes for all files together; beyond it writes give errc::disk_full
  bool fail_removes = false;         ///< `remove` gives errc::io_failed
};

/// Models Storage. Copies share one disk, as two handles to one folder do. Thread-safe.
class memory_storage {
 public:
  explicit memory_storage(storage_faults faults = {}) : disk_{std::make_shared<disk>()} { disk_->faults = faults; }

  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
    byte_vector content;
    // The producer runs without the lock: it may read this very storage.
    CAUSEWAY_TRY(producer([&](std::span<const std::byte> piece) -> result<void> {
      content.insert(content.end(), piece.begin(), piece.end());
      return {};
    }));
    const std::lock_guard lock{disk_->mutex};
    CAUSEWAY_TRY(disk_->spoil(path, content));
    disk_->files[path] = std::move(content);
    return {};
  }

  result<byte_vector> read(const std::string& path) {
    const std::lock_guard lock{disk_->mutex};
    const auto found = disk_->files.find(path);
    if (found == disk_->files.end()) return fail(errc::not_found, path, "there is no such file. Check the path");
    return found->second;
  }

  result<std::vector<std::string>> list(const std::string& folder) {
    const std::lock_guard lock{disk_->mutex};
    const std::string prefix = folder + '/';
    bool seen = false;
    std::vector<std::string> names;
    for (auto it = disk_->files.lower_bound(prefix); it != disk_->files.end() && it->first.starts_with(prefix); ++it) {
      seen = true;
      std::string name = it->first.substr(prefix.size());
      if (name.find('/') == std::string::npos) names.push_back(std::move(name));
    }
    if (!seen) return fail(errc::not_found, folder, "there is no such folder. Check the path");
    return names;
  }

  result<void> remove(const std::string& path) {
    const std::lock_guard lock{disk_->mutex};
    if (disk_->faults.fail_removes) return fail(errc::io_failed, path, "injected fault: the disk refused to remove it");
    disk_->files.erase(path);
    return {};
  }

  /// Replaces the faults; counting of writes goes on.
  void set_faults(storage_faults faults) {
    const std::lock_guard lock{disk_->mutex};
    disk_->faults = faults;
  }

  /// Number of writes asked for so far.
  [[nodiscard]] std::uint64_t writes() const {
    const std::lock_guard lock{disk_->mutex};
    return disk_->writes;
  }

 private:
  struct disk {
    std::mutex mutex;
    std::map<std::string, byte_vector> files;
    storage_faults faults;
    std::uint64_t writes = 0;

    /// Counts a write and does to `content` what the faults say.
    result<void> spoil(const std::string& path, byte_vector& content) {
      ++writes;
      if (writes == faults.fail_write) return fail(errc::io_failed, path, "injected fault: the disk refused the write");
      if (used_beside(path) + content.size() > faults.capacity) {
        return fail(errc::disk_full, path, "injected fault: no space left. Free some space or choose another folder");
      }
      if (writes == faults.tear_write) content.resize(std::min(content.size(), faults.tear_at));
      if (writes == faults.flip_write && !content.empty()) {
        const std::uint64_t bit = faults.flip_bit % (8 * content.size());
        content[bit / 8] ^= std::byte{1} << (bit % 8);
      }
      return {};
    }

    [[nodiscard]] std::size_t used_beside(const std::string& path) const {
      std::size_t sum = 0;
      for (const auto& [name, content] : files) sum += name == path ? 0 : content.size();
      return sum;
    }
  };

  std::shared_ptr<disk> disk_;
};

static_assert(Storage<memory_storage>);

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_MEMORY_STORAGE_HPP
