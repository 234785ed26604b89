// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_DISK_FILE_HPP
#define CAUSEWAY_SIM_DISK_FILE_HPP

// One file of sim::disk: what processes see, and what of it is on the platter. The bytes are kept once; only pages that
// differ from the platter have their old bytes beside them. Every choice that a crash makes goes through one function, so
// that a test can try them all.

#include <causeway/config/config.hpp>
#include <causeway/io/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

using disk_choice = std::function<std::uint64_t(std::uint64_t bound)>;

/// The bytes of one file.
class disk_file {
 public:
  [[nodiscard]] const io::byte_vector& bytes() const noexcept { return bytes_; }

  CAUSEWAY_DECL void truncate(std::size_t page_bytes);

  CAUSEWAY_DECL void append(std::span<const std::byte> more, std::size_t page_bytes);

  /// All dirty pages go to the platter, and the length. What an earlier failed sync dropped does not: it is not dirty.
  CAUSEWAY_DECL void sync();

  /// A sync that fails: some pages are written, the rest are clean from now on all the same, as Linux has it.
  CAUSEWAY_DECL void lose(const disk_choice& choose);

  CAUSEWAY_DECL void crash(const disk_choice& choose, std::size_t page_bytes, std::size_t sector_bytes);

  /// Nothing differs from the platter.
  CAUSEWAY_DECL void mark_durable();

  void flip(std::uint64_t bit) { bytes_[bit / 8] ^= std::byte{1} << (bit % 8); }

 private:
  struct old_page {
    io::byte_vector bytes;  // on the platter; shorter than a page where the file ended, or for a new page
    bool dirty = true;      // false: dropped by a failed sync, so no later one writes it
  };

  CAUSEWAY_DECL void remember(std::size_t page, std::size_t page_bytes);

  // Puts into a page what a crash leaves of it: old, new, or torn between its sectors.
  CAUSEWAY_DECL void spoil(std::size_t begin, std::size_t page_bytes, std::size_t sector_bytes, const old_page& before,
                           const disk_choice& choose);

  // The lengths of the file since the last sync that end inside [begin, end).
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> earlier(std::size_t begin, std::size_t end) const;

  io::byte_vector bytes_;                  // what processes see
  std::map<std::size_t, old_page> pages_;  // that differ from the platter
  std::size_t durable_length_ = 0;
  std::vector<std::size_t> lengths_;  // since the last sync
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/disk_file.ipp>
#endif

#endif  // CAUSEWAY_SIM_DISK_FILE_HPP
