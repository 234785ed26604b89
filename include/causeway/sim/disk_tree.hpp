// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_DISK_TREE_HPP
#define CAUSEWAY_SIM_DISK_TREE_HPP

// The folders of sim::disk and the files in them. A folder keeps its durable names and the changes since its last sync; a
// crash keeps any of those, in any order.

#include <causeway/config/config.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/sim/disk_file.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

/// The names in one folder. A change sets one name or two at once (rename); 0 means that the name is gone.
class disk_folder {
 public:
  using change = std::vector<std::pair<std::string, std::uint64_t>>;
  using names = std::map<std::string, std::uint64_t>;

  [[nodiscard]] const names& entries() const noexcept { return entries_; }

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t find(const std::string& name) const;

  CAUSEWAY_DECL void apply(change made);

  CAUSEWAY_DECL void sync();

  /// A sync that fails: each change was written, was dropped for good, or waits for another sync.
  CAUSEWAY_DECL void lose(const disk_choice& choose);

  CAUSEWAY_DECL void crash(const disk_choice& choose);

  /// Everything that a process sees or a crash may bring back.
  template <class Visit>
  void each_inode(Visit visit) const {
    for (const auto& [name, inode] : entries_) visit(inode);
    for (const auto& [name, inode] : durable_) visit(inode);
    for (const change& made : pending_) {
      for (const auto& [name, inode] : made) visit(inode);
    }
  }

 private:
  CAUSEWAY_DECL static void apply_to(names& where, const change& made);

  names entries_;
  names durable_;
  std::vector<change> pending_;
};

/// All of a disk's files and folders. Members give 0 or an errno.
class disk_tree {
 public:
  CAUSEWAY_DECL disk_tree(std::size_t page_bytes, std::size_t sector_bytes);

  CAUSEWAY_DECL int create(const std::string& path, std::uint64_t& inode);

  CAUSEWAY_DECL bool append(std::uint64_t inode, std::span<const std::byte> bytes);

  CAUSEWAY_DECL bool sync(std::uint64_t inode);

  CAUSEWAY_DECL void lose(std::uint64_t inode, const disk_choice& choose);

  CAUSEWAY_DECL int rename(const std::string& from, const std::string& to);

  CAUSEWAY_DECL int unlink(const std::string& path);

  CAUSEWAY_DECL int make_folder(const std::string& path);

  CAUSEWAY_DECL int remove_folder(const std::string& path);

  CAUSEWAY_DECL int sync_folder(const std::string& path);

  CAUSEWAY_DECL void lose_names(const std::string& path, const disk_choice& choose);

  [[nodiscard]] bool is_folder(const std::string& path) { return folder_at(path) != nullptr; }

  CAUSEWAY_DECL int list(const std::string& path, std::vector<std::string>& names);

  CAUSEWAY_DECL [[nodiscard]] const io::byte_vector* content(const std::string& path);

  /// Bytes of all files that have a name.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t used() const;

  CAUSEWAY_DECL bool flip(const std::string& path, std::uint64_t bit);

  /// Flips the n-th bit of all files that have a name, laid end to end.
  CAUSEWAY_DECL bool flip_nth(std::uint64_t bit);

  CAUSEWAY_DECL void crash(const disk_choice& choose);

 private:
  static constexpr std::uint64_t root = 1;

  struct place {
    disk_folder* folder;  // that `name` is in, nullptr if there is none
    std::string name;     // empty: the root itself
  };

  // Follows a path to its last part. Empty parts and "." count for nothing.
  CAUSEWAY_DECL place resolve(const std::string& path);

  CAUSEWAY_DECL disk_folder* inside(const place& at);

  CAUSEWAY_DECL disk_folder* folder_at(const std::string& path);

  CAUSEWAY_DECL disk_file* file_at(const std::string& path);

  // The files that processes can find.
  CAUSEWAY_DECL [[nodiscard]] std::set<std::uint64_t> named() const;

  // Forgets what neither a process nor a crash can bring back.
  CAUSEWAY_DECL void collect();

  std::size_t page_bytes_;
  std::size_t sector_bytes_;
  std::uint64_t next_ = root + 1;
  std::map<std::uint64_t, disk_file> files_;
  std::map<std::uint64_t, disk_folder> folders_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/disk_tree.ipp>
#endif

#endif  // CAUSEWAY_SIM_DISK_TREE_HPP
