// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_DISK_IPP
#define CAUSEWAY_SIM_IMPL_DISK_IPP

#include <causeway/sim/disk.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL disk::disk(disk_options options) : shared_{std::make_shared<shared>(options)} {}

CAUSEWAY_DECL disk::locked disk::open() const { return {std::unique_lock{*mutex_}, shared_.get()}; }

CAUSEWAY_DECL error disk::halted(const std::string& path) {
  return io::os_error(path, "reach the disk, which has stopped", EIO);
}

CAUSEWAY_DECL disk::shared::shared(const disk_options& o) : options{o}, tree{o.page_bytes, o.sector_bytes}, draws{o.seed} {}

CAUSEWAY_DECL auto disk::shared::choice() -> chooser {
  return [this](std::uint64_t bound) { return draws.below(bound); };
}

CAUSEWAY_DECL void disk::shared::next_life() {
  ++life;
  process += draws.below(2);  // a restarted process may get the same id again
  faults = {};
  running = true;
}

CAUSEWAY_DECL bool disk::shared::count() {
  ++operations;
  if (++seen.halt == faults.halt) running = false;
  return running;
}

CAUSEWAY_DECL void disk::let_pass(duration d) const {
  if (d <= duration{0}) return;
  const waiter wait = open()->wait;
  if (wait) wait(d);
}

CAUSEWAY_DECL result<void> disk::outcome(int code, const std::string& path, const char* doing) {
  if (code == 0) return {};
  return io::os_error(path, doing, code);
}

CAUSEWAY_DECL result<disk::file_type> disk::create(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_create, self->faults.fail_create)) return io::os_error(path, "open it", EIO);
  std::uint64_t inode = 0;
  const int code = self->tree.create(path, inode);
  if (code != 0) return io::os_error(path, "open it", code);
  if (!on) return halted(path);
  return file_type{inode, self->life, path};
}

CAUSEWAY_DECL result<void> disk::write(file_type& file, std::span<const std::byte> bytes) {
  const double took = static_cast<double>(bytes.size()) / timing().bytes_per_s;
  let_pass(duration{std::llround(std::min(took, 1e9) * 1e9)});
  const locked self = open();
  if (!self->running) return halted(file.path);
  const bool on = self->count();
  if (file.life != self->life) return io::os_error(file.path, "write to it", EBADF);
  int code = 0;
  if (disk::shared::hits(self->seen.fail_write, self->faults.fail_write)) {
    code = EIO;
    bytes = bytes.first(self->draws.below(bytes.size() + 1));
  }
  if (self->faults.capacity != disk_faults::unlimited) {
    const std::uint64_t used = self->tree.used();
    const std::uint64_t space = self->faults.capacity > used ? self->faults.capacity - used : 0;
    if (bytes.size() > space) {
      code = ENOSPC;
      bytes = bytes.first(space);
    }
  }
  if (!self->tree.append(file.inode, bytes)) code = EBADF;
  if (!on) return halted(file.path);
  return outcome(code, file.path, "write to it");
}

CAUSEWAY_DECL result<void> disk::sync(file_type& file) {
  let_pass(timing().sync);
  const locked self = open();
  if (!self->running || !self->count()) return halted(file.path);
  if (file.life != self->life) return io::os_error(file.path, "make it durable (fsync)", EBADF);
  const bool fails = disk::shared::hits(self->seen.fail_sync, self->faults.fail_sync);
  if (fails) {
    self->tree.lose(file.inode, self->choice());
    return io::os_error(file.path, "make it durable (fsync)", EIO);
  }
  return outcome(self->tree.sync(file.inode) ? 0 : EBADF, file.path, "make it durable (fsync)");
}

CAUSEWAY_DECL result<void> disk::close(file_type& file) {
  const locked self = open();
  if (!self->running) return halted(file.path);
  if (file.life != self->life) return io::os_error(file.path, "close it", EBADF);
  file.life = ~std::uint64_t{0};
  return {};
}

CAUSEWAY_DECL result<void> disk::rename(const std::string& from, const std::string& to) {
  const locked self = open();
  if (!self->running) return halted(to);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_rename, self->faults.fail_rename)) {
    return io::os_error(to, "rename the finished file to its final name", EIO);
  }
  const int code = self->tree.rename(from, to);
  if (!on) return halted(to);
  return outcome(code, to, "rename the finished file to its final name");
}

CAUSEWAY_DECL result<void> disk::unlink(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_unlink, self->faults.fail_unlink)) return io::os_error(path, "remove it", EIO);
  const int code = self->tree.unlink(path);
  if (!on) return halted(path);
  return outcome(code, path, "remove it");
}

CAUSEWAY_DECL result<void> disk::sync_folder(const std::string& folder) {
  let_pass(timing().sync);
  const locked self = open();
  if (!self->running || !self->count()) return halted(folder);
  if (disk::shared::hits(self->seen.fail_sync_folder, self->faults.fail_sync_folder)) {
    self->tree.lose_names(folder, self->choice());
    return io::os_error(folder, "make the folder durable (fsync)", EIO);
  }
  return outcome(self->tree.sync_folder(folder), folder, "make the folder durable (fsync)");
}

CAUSEWAY_DECL io::folder_state disk::look(const std::string& path) {
  const locked self = open();
  return self->running && self->tree.is_folder(path) ? io::folder_state::present : io::folder_state::missing;
}

CAUSEWAY_DECL result<void> disk::make_folder(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  const int code = self->tree.make_folder(path);
  if (!on) return halted(path);
  return outcome(code == EEXIST ? 0 : code, path, "make the folder");
}

CAUSEWAY_DECL result<void> disk::remove_folder(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  const int code = self->tree.remove_folder(path);
  if (!on) return halted(path);
  return outcome(code, path, "remove the folder");
}

CAUSEWAY_DECL result<std::vector<std::string>> disk::list(const std::string& folder) {
  const locked self = open();
  if (!self->running) return halted(folder);
  std::vector<std::string> names;
  const int code = self->tree.list(folder, names);
  if (code != 0) return io::os_error(folder, "list the folder", code);
  return names;
}

CAUSEWAY_DECL result<io::byte_vector> disk::read(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  if (disk::shared::hits(self->seen.fail_read, self->faults.fail_read)) return io::os_error(path, "read it", EIO);
  const io::byte_vector* content = self->tree.content(path);
  if (content == nullptr) return io::os_error(path, "open it", ENOENT);
  return *content;
}

CAUSEWAY_DECL void disk::set_faults(const disk_faults& faults) {
  const locked self = open();
  self->faults = faults;
  self->seen = {.capacity = 0};
}

CAUSEWAY_DECL void disk::crash() {
  const chooser choose = open()->choice();  // the lock is free again after this line
  crash(choose);
}

CAUSEWAY_DECL void disk::crash(const chooser& choose) {
  const locked self = open();
  self->tree.crash(choose);
  self->next_life();
}

CAUSEWAY_DECL void disk::kill() {
  const locked self = open();
  self->next_life();
}

CAUSEWAY_DECL result<void> disk::flip(const std::string& path, std::uint64_t bit) {
  const locked self = open();
  return outcome(self->tree.flip(path, bit) ? 0 : ENOENT, path, "flip a bit of it");
}

CAUSEWAY_DECL bool disk::flip_any() {
  const locked self = open();
  const std::uint64_t bytes = self->tree.used();
  return bytes != 0 && self->tree.flip_nth(self->draws.below(8 * bytes));
}

CAUSEWAY_DECL disk disk::clone() const {
  disk copy;
  copy.shared_ = std::make_shared<shared>(*open().state);
  return copy;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_DISK_IPP
