// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_DISK_TREE_IPP
#define CAUSEWAY_SIM_IMPL_DISK_TREE_IPP

#include <causeway/sim/disk_tree.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL std::uint64_t disk_folder::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? 0 : found->second;
}

CAUSEWAY_DECL void disk_folder::apply(change made) {
  apply_to(entries_, made);
  pending_.push_back(std::move(made));
}

CAUSEWAY_DECL void disk_folder::sync() {
  for (const change& made : pending_) apply_to(durable_, made);
  pending_.clear();
}

CAUSEWAY_DECL void disk_folder::lose(const disk_choice& choose) {
  std::erase_if(pending_, [&](const change& made) {
    const std::uint64_t fate = choose(3);
    if (fate == 0) apply_to(durable_, made);
    return fate != 2;
  });
}

CAUSEWAY_DECL void disk_folder::crash(const disk_choice& choose) {
  std::vector<change> written;
  for (const change& made : pending_) {
    if (choose(2) == 1) written.push_back(made);
  }
  for (std::size_t i = written.size(); i > 1; --i) std::swap(written[i - 1], written[i - 1 - choose(i)]);
  for (const change& made : written) apply_to(durable_, made);
  entries_ = durable_;
  pending_.clear();
}

CAUSEWAY_DECL void disk_folder::apply_to(names& where, const change& made) {
  for (const auto& [name, inode] : made) {
    if (inode == 0) {
      where.erase(name);
    } else {
      where[name] = inode;
    }
  }
}

CAUSEWAY_DECL disk_tree::disk_tree(std::size_t page_bytes, std::size_t sector_bytes)
    : page_bytes_{page_bytes}, sector_bytes_{sector_bytes}, folders_{{root, {}}} {}

CAUSEWAY_DECL int disk_tree::create(const std::string& path, std::uint64_t& inode) {
  const place at = resolve(path);
  if (at.folder == nullptr) return ENOENT;
  inode = at.folder->find(at.name);
  if (inode == 0) {
    inode = next_++;
    at.folder->apply({{at.name, inode}});
    files_.try_emplace(inode);
    return 0;
  }
  if (folders_.contains(inode)) return EISDIR;
  files_[inode].truncate(page_bytes_);
  return 0;
}

CAUSEWAY_DECL bool disk_tree::append(std::uint64_t inode, std::span<const std::byte> bytes) {
  const auto file = files_.find(inode);
  if (file == files_.end()) return false;
  file->second.append(bytes, page_bytes_);
  return true;
}

CAUSEWAY_DECL bool disk_tree::sync(std::uint64_t inode) {
  const auto file = files_.find(inode);
  if (file == files_.end()) return false;
  file->second.sync();
  return true;
}

CAUSEWAY_DECL void disk_tree::lose(std::uint64_t inode, const disk_choice& choose) {
  const auto file = files_.find(inode);
  if (file != files_.end()) file->second.lose(choose);
}

CAUSEWAY_DECL int disk_tree::rename(const std::string& from, const std::string& to) {
  const place source = resolve(from);
  const place target = resolve(to);
  if (source.folder == nullptr || target.folder == nullptr) return ENOENT;
  const std::uint64_t inode = source.folder->find(source.name);
  if (inode == 0) return ENOENT;
  if (folders_.contains(inode)) return EXDEV;  // nobody here renames folders
  if (folders_.contains(target.folder->find(target.name))) return EISDIR;
  if (source.folder == target.folder) {
    if (source.name != target.name) source.folder->apply({{target.name, inode}, {source.name, 0}});
    return 0;
  }
  target.folder->apply({{target.name, inode}});  // two folders: two changes, and a crash may keep either
  source.folder->apply({{source.name, 0}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::unlink(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr || at.folder->find(at.name) == 0) return ENOENT;
  if (folders_.contains(at.folder->find(at.name))) return EISDIR;
  at.folder->apply({{at.name, 0}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::make_folder(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr) return ENOENT;
  if (at.name.empty() || at.folder->find(at.name) != 0) return EEXIST;
  folders_.try_emplace(next_);
  at.folder->apply({{at.name, next_++}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::remove_folder(const std::string& path) {
  const disk_folder* folder = folder_at(path);
  if (folder == nullptr) return ENOENT;
  if (!folder->entries().empty()) return ENOTEMPTY;
  const place at = resolve(path);
  if (at.name.empty()) return EBUSY;
  at.folder->apply({{at.name, 0}});
  return 0;
}

CAUSEWAY_DECL int disk_tree::sync_folder(const std::string& path) {
  disk_folder* folder = folder_at(path);
  if (folder == nullptr) return ENOENT;
  folder->sync();
  collect();
  return 0;
}

CAUSEWAY_DECL void disk_tree::lose_names(const std::string& path, const disk_choice& choose) {
  if (disk_folder* folder = folder_at(path)) folder->lose(choose);
}

CAUSEWAY_DECL int disk_tree::list(const std::string& path, std::vector<std::string>& names) {
  const disk_folder* folder = folder_at(path);
  if (folder == nullptr) return ENOENT;
  for (const auto& [name, inode] : folder->entries()) {
    if (files_.contains(inode)) names.push_back(name);
  }
  return 0;
}

CAUSEWAY_DECL const io::byte_vector* disk_tree::content(const std::string& path) {
  const disk_file* file = file_at(path);
  return file == nullptr ? nullptr : &file->bytes();
}

CAUSEWAY_DECL std::uint64_t disk_tree::used() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t inode : named()) sum += files_.at(inode).bytes().size();
  return sum;
}

CAUSEWAY_DECL bool disk_tree::flip(const std::string& path, std::uint64_t bit) {
  disk_file* file = file_at(path);
  if (file == nullptr || file->bytes().empty()) return false;
  file->flip(bit % (8 * file->bytes().size()));
  return true;
}

CAUSEWAY_DECL bool disk_tree::flip_nth(std::uint64_t bit) {
  for (const std::uint64_t inode : named()) {
    disk_file& file = files_.at(inode);
    if (bit < 8 * file.bytes().size()) {
      file.flip(bit);
      return true;
    }
    bit -= 8 * file.bytes().size();
  }
  return false;
}

CAUSEWAY_DECL void disk_tree::crash(const disk_choice& choose) {
  for (auto& [inode, folder] : folders_) folder.crash(choose);
  collect();  // first, so that no choices are made about files that nobody can find
  for (auto& [inode, file] : files_) file.crash(choose, page_bytes_, sector_bytes_);
}

CAUSEWAY_DECL auto disk_tree::resolve(const std::string& path) -> place {
  place at{&folders_.at(root), {}};
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t slash = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, slash - begin);
    begin = slash + 1;
    if (part.empty() || part == ".") continue;
    if (!at.name.empty()) at.folder = inside(at);
    if (at.folder == nullptr) return at;
    at.name = std::move(part);
  }
  return at;
}

CAUSEWAY_DECL disk_folder* disk_tree::inside(const place& at) {
  const auto found = folders_.find(at.folder->find(at.name));
  return found == folders_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL disk_folder* disk_tree::folder_at(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr || at.name.empty()) return at.folder;
  return inside(at);
}

CAUSEWAY_DECL disk_file* disk_tree::file_at(const std::string& path) {
  const place at = resolve(path);
  if (at.folder == nullptr) return nullptr;
  const auto found = files_.find(at.folder->find(at.name));
  return found == files_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL std::set<std::uint64_t> disk_tree::named() const {
  std::set<std::uint64_t> found;
  std::vector<std::uint64_t> open{root};
  while (!open.empty()) {
    const auto& folder = folders_.at(open.back());
    open.pop_back();
    for (const auto& [name, inode] : folder.entries()) {
      if (files_.contains(inode)) {
        found.insert(inode);
      } else {
        open.push_back(inode);
      }
    }
  }
  return found;
}

CAUSEWAY_DECL void disk_tree::collect() {
  std::set<std::uint64_t> kept{root};
  std::vector<std::uint64_t> open{root};
  while (!open.empty()) {
    const auto folder = folders_.find(open.back());
    open.pop_back();
    if (folder == folders_.end()) continue;
    folder->second.each_inode([&](std::uint64_t inode) {
      if (inode != 0 && kept.insert(inode).second) open.push_back(inode);
    });
  }
  std::erase_if(files_, [&](const auto& entry) { return !kept.contains(entry.first); });
  std::erase_if(folders_, [&](const auto& entry) { return !kept.contains(entry.first); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_DISK_TREE_IPP
