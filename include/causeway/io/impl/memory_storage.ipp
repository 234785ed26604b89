// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_MEMORY_STORAGE_IPP
#define CAUSEWAY_IO_IMPL_MEMORY_STORAGE_IPP

#include <causeway/io/memory_storage.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL memory_storage::memory_storage(storage_faults faults) : disk_{std::make_shared<disk>()} {
  disk_->faults = faults;
}

CAUSEWAY_DECL result<void> memory_storage::write_atomic(const std::string& path, const byte_producer& producer) {
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

CAUSEWAY_DECL result<byte_vector> memory_storage::read(const std::string& path) {
  const std::lock_guard lock{disk_->mutex};
  const auto found = disk_->files.find(path);
  if (found == disk_->files.end()) return fail(errc::not_found, path, "there is no such file. Check the path");
  return found->second;
}

CAUSEWAY_DECL result<std::vector<std::string>> memory_storage::list(const std::string& folder) {
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

CAUSEWAY_DECL result<void> memory_storage::remove(const std::string& path) {
  const std::lock_guard lock{disk_->mutex};
  if (disk_->faults.fail_removes) return fail(errc::io_failed, path, "injected fault: the disk refused to remove it");
  disk_->files.erase(path);
  return {};
}

CAUSEWAY_DECL void memory_storage::set_faults(storage_faults faults) {
  const std::lock_guard lock{disk_->mutex};
  disk_->faults = faults;
}

CAUSEWAY_DECL std::uint64_t memory_storage::writes() const {
  const std::lock_guard lock{disk_->mutex};
  return disk_->writes;
}

CAUSEWAY_DECL result<void> memory_storage::disk::spoil(const std::string& path, byte_vector& content) {
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

CAUSEWAY_DECL std::size_t memory_storage::disk::used_beside(const std::string& path) const {
  std::size_t sum = 0;
  for (const auto& [name, content] : files) sum += name == path ? 0 : content.size();
  return sum;
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_MEMORY_STORAGE_IPP
