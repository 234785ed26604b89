// SPDX-License-Identifier: Apache-2.0
#include "peer_folder.hpp"

#include <causeway/io/file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "text_file.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
using causeway::errc;
using causeway::fail;

std::string folder_of(const std::string& run, std::uint32_t index) { return run + "/peer-" + std::to_string(index); }

struct flock whole_file(short kind) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return lock;
}

// A descriptor that holds the lock; -1 with errno EAGAIN where another process has it.
int try_lock(const std::string& folder) {
  const int fd = open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

// Looks without taking: a lock held for a moment could turn away the process that it is meant for.
bool is_locked(const std::string& folder) {
  const int fd = open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock = whole_file(F_WRLCK);
  const bool taken = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return taken;
}

std::optional<std::uint32_t> index_of(const std::string& name) {
  if (!name.starts_with("peer-") || name.size() == 5 || name.size() > 14) return std::nullopt;
  if (name.find_first_not_of("0123456789", 5) != std::string::npos) return std::nullopt;
  return static_cast<std::uint32_t>(std::stoul(name.substr(5)));
}

}  // namespace

peer_folder::peer_folder(std::string run, std::uint32_t index, int lock)
    : path_{folder_of(run, index)}, index_{index}, lock_{lock} {}

peer_folder::peer_folder(peer_folder&& other) noexcept
    : path_{std::move(other.path_)}, index_{other.index_}, lock_{std::exchange(other.lock_, -1)} {}

peer_folder::~peer_folder() {
  if (lock_ >= 0) close(lock_);
}

causeway::result<peer_folder> peer_folder::claim(const std::string& run, std::int64_t index) {
  const bool any = index < 0;
  for (std::uint32_t i = any ? 0 : static_cast<std::uint32_t>(index); i < 4096; ++i) {
    const std::string folder = folder_of(run, i);
    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure) return fail(errc::io_failed, folder, "cannot be made: " + failure.message());
    const int lock = try_lock(folder);
    if (lock >= 0) return peer_folder{run, i, lock};
    if (errno != EAGAIN && errno != EACCES)
      return fail(errc::io_failed, folder, std::string{"cannot be locked: "} + std::strerror(errno));
    if (!any) {
      return fail(errc::invalid_argument, folder,
                  "another process is this peer already; stop it first, or leave --net.index out to be another one");
    }
  }
  return fail(errc::too_large, run, "4096 peers of this run are on this machine already");
}

std::optional<std::string> peer_folder::address() const {
  std::ifstream file{path_ + "/address"};
  std::string address;
  if (!(file >> address)) return std::nullopt;
  return address;
}

causeway::result<void> peer_folder::set_address(const std::string& address) {
  const std::string text = address + " " + std::to_string(getpid()) + "\n";
  causeway::io::posix_storage storage;
  return storage.write_atomic(path_ + "/address", causeway::io::produce(text));
}

bool is_refusal(errc code) {
  return code == errc::invalid_argument || code == errc::unsupported || code == errc::wrong_model;
}

causeway::result<void> note_refusal(const std::string& peer, const causeway::error& why) {
  return write_text(peer + "/refusal", std::to_string(static_cast<int>(why.code)) + "\n" + why.where + "\n" + why.message);
}

std::optional<causeway::error> read_refusal(const std::string& peer) {
  std::ifstream file{peer + "/refusal"};
  int code = 0;
  std::string where, message;
  if (!(file >> code) || !std::getline(file.ignore(), where)) return std::nullopt;
  std::getline(file, message, '\0');
  return fail(static_cast<errc>(code), where, message);
}

void forget_refusal(const std::string& peer) {
  std::error_code ignored;
  fs::remove(peer + "/refusal", ignored);
}

std::vector<sibling> peers_on_disk(const std::string& run) {
  std::vector<sibling> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{run, ignored}) {
    const auto index = index_of(entry.path().filename().string());
    if (!index) continue;
    sibling s;
    s.index = *index;
    std::ifstream{entry.path() / "address"} >> s.address >> s.process;
    s.running = is_locked(entry.path().string());
    s.known = fs::exists(entry.path() / "record", ignored);
    found.push_back(std::move(s));
  }
  std::sort(found.begin(), found.end(), [](const sibling& a, const sibling& b) { return a.index < b.index; });
  return found;
}

}  // namespace app
