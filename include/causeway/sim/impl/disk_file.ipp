// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_DISK_FILE_IPP
#define CAUSEWAY_SIM_IMPL_DISK_FILE_IPP

#include <causeway/sim/disk_file.hpp>

#include <algorithm>
#include <iterator>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL void disk_file::truncate(std::size_t page_bytes) {
  for (std::size_t page = 0; page * page_bytes < bytes_.size(); ++page) remember(page, page_bytes);
  bytes_.clear();
  lengths_.push_back(0);
}

CAUSEWAY_DECL void disk_file::append(std::span<const std::byte> more, std::size_t page_bytes) {
  if (more.empty()) return;
  const std::size_t end = bytes_.size() + more.size();
  for (std::size_t page = bytes_.size() / page_bytes; page * page_bytes < end; ++page) remember(page, page_bytes);
  bytes_.insert(bytes_.end(), more.begin(), more.end());
  lengths_.push_back(end);
}

CAUSEWAY_DECL void disk_file::sync() {
  std::erase_if(pages_, [](const auto& entry) { return entry.second.dirty; });
  durable_length_ = bytes_.size();
  lengths_.clear();
}

CAUSEWAY_DECL void disk_file::lose(const disk_choice& choose) {
  for (auto page = pages_.begin(); page != pages_.end();) {
    const bool written = page->second.dirty && choose(2) == 0;
    page->second.dirty = false;
    page = written ? pages_.erase(page) : std::next(page);
  }
  if (choose(2) == 0) durable_length_ = bytes_.size();
  lengths_.clear();
}

CAUSEWAY_DECL void disk_file::crash(const disk_choice& choose, std::size_t page_bytes, std::size_t sector_bytes) {
  if (pages_.empty() && lengths_.empty() && durable_length_ == bytes_.size()) return;
  const std::uint64_t drawn = choose(lengths_.size() + 1);
  const std::size_t length = drawn == 0 ? durable_length_ : lengths_[drawn - 1];
  bytes_.resize(std::max(length, bytes_.size()));
  for (const auto& [page, before] : pages_) spoil(page * page_bytes, page_bytes, sector_bytes, before, choose);
  bytes_.resize(length);
  mark_durable();
}

CAUSEWAY_DECL void disk_file::mark_durable() {
  pages_.clear();
  lengths_.clear();
  durable_length_ = bytes_.size();
}

CAUSEWAY_DECL void disk_file::remember(std::size_t page, std::size_t page_bytes) {
  const auto [entry, fresh] = pages_.try_emplace(page);
  entry->second.dirty = true;
  if (!fresh) return;
  const std::size_t begin = std::min(page * page_bytes, bytes_.size());
  const std::size_t end = std::min(begin + page_bytes, bytes_.size());
  entry->second.bytes.assign(bytes_.begin() + static_cast<std::ptrdiff_t>(begin),
                             bytes_.begin() + static_cast<std::ptrdiff_t>(end));
}

CAUSEWAY_DECL void disk_file::spoil(std::size_t begin, std::size_t page_bytes, std::size_t sector_bytes,
                                    const old_page& before, const disk_choice& choose) {
  const std::uint64_t fate = before.dirty ? choose(page_bytes > sector_bytes ? 3 : 2) : 0;
  for (std::size_t at = begin; at < std::min(begin + page_bytes, bytes_.size()); at += sector_bytes) {
    const std::size_t end = std::min(at + sector_bytes, bytes_.size());
    const std::uint64_t version = fate == 2 ? choose(2 + earlier(at, end).size()) : fate;
    if (version == 0) {
      for (std::size_t i = at; i < end; ++i)
        bytes_[i] = i - begin < before.bytes.size() ? before.bytes[i - begin] : std::byte{0};
    } else if (version > 1) {  // written back between two writes: the end of the sector was not there yet
      std::fill(bytes_.begin() + static_cast<std::ptrdiff_t>(earlier(at, end)[version - 2]),
                bytes_.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
    }
  }
}

CAUSEWAY_DECL std::vector<std::size_t> disk_file::earlier(std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> found;
  std::copy_if(lengths_.begin(), lengths_.end(), std::back_inserter(found),
               [&](std::size_t length) { return length > begin && length < end; });
  return found;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_DISK_FILE_IPP
