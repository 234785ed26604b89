// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_MEMORY_STORAGE_HPP
#define CAUSEWAY_IO_MEMORY_STORAGE_HPP

// A disk in memory that can be told to fail. Its faults are those of real disks: a write that is refused, a write that was
// reported done but kept only a prefix (power loss on a disk that ignores fsync), a full disk, a flipped bit.

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

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
  CAUSEWAY_DECL explicit memory_storage(storage_faults faults = {});

  CAUSEWAY_DECL result<void> write_atomic(const std::string& path, const byte_producer& producer);

  CAUSEWAY_DECL result<byte_vector> read(const std::string& path);

  CAUSEWAY_DECL result<std::vector<std::string>> list(const std::string& folder);

  CAUSEWAY_DECL result<void> remove(const std::string& path);

  /// Replaces the faults; counting of writes goes on.
  CAUSEWAY_DECL void set_faults(storage_faults faults);

  /// Number of writes asked for so far.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t writes() const;

 private:
  struct disk {
    std::mutex mutex;
    std::map<std::string, byte_vector> files;
    storage_faults faults;
    std::uint64_t writes = 0;

    /// Counts a write and does to `content` what the faults say.
    CAUSEWAY_DECL result<void> spoil(const std::string& path, byte_vector& content);

    CAUSEWAY_DECL [[nodiscard]] std::size_t used_beside(const std::string& path) const;
  };

  std::shared_ptr<disk> disk_;
};

static_assert(Storage<memory_storage>);

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/memory_storage.ipp>
#endif

#endif  // CAUSEWAY_IO_MEMORY_STORAGE_HPP
