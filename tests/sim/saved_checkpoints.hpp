// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SIM_SAVED_CHECKPOINTS_HPP
#define CAUSEWAY_TESTS_SIM_SAVED_CHECKPOINTS_HPP

// Checkpoints that a peer saves on a disk that crashes, what it knows of them, and every outcome of a crash.

#include <causeway/core/rng.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/sim/disk.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace checkpoints {

namespace cw = causeway;
namespace io = causeway::io;
namespace sim = causeway::sim;

constexpr const char* folder = "run/peer-0";

// One save. The tag tells two saves of one step apart.
struct saved {
  std::uint64_t step = 0;
  std::uint64_t tag = 0;
  friend bool operator==(const saved&, const saved&) = default;
};

// Contents are a function of the save alone, so that what comes back can be checked byte by byte. `large`: several pages.
inline io::byte_vector bytes_of(const saved& what, bool large) {
  cw::rng draws{what.step, what.tag};
  io::byte_vector bytes(large ? 1 + draws.below(14'000) : 1 + draws.below(80));
  for (std::byte& b : bytes) b = static_cast<std::byte>(draws.next());
  return bytes;
}

inline std::vector<io::section> sections_of(const saved& what, bool large) {
  const auto tag = std::as_bytes(std::span{&what.tag, 1});
  return {{"tag", 1, io::byte_vector(tag.begin(), tag.end())}, {"state", 1, bytes_of(what, large)}};
}

// Which save a file is of; nothing if it is not exactly that.
inline std::optional<saved> recognise(const io::section_file& file, bool large) {
  saved what{file.stamp().step, 0};
  if (!file.copy_to("tag", std::span{&what.tag, 1})) return std::nullopt;
  const auto state = file.find("state");
  const auto expected = bytes_of(what, large);
  if (!state || !std::equal(state->bytes.begin(), state->bytes.end(), expected.begin(), expected.end()))
    return std::nullopt;
  return what;
}

// A file system that leaves out one care.
struct careless : sim::disk {
  enum class fault { none, no_sync, no_folder_sync, sync_again, sync_after_rename, no_sync_above };

  careless(sim::disk under, fault what) : sim::disk{std::move(under)}, missing{what} {}

  cw::result<void> sync(file_type& file) {
    if (missing == fault::no_sync || missing == fault::sync_after_rename) return {};
    auto done = sim::disk::sync(file);
    if (!done && missing == fault::sync_again) done = sim::disk::sync(file);
    return done;
  }
  cw::result<void> close(file_type& file) {
    if (missing != fault::sync_after_rename) return sim::disk::close(file);
    late = file;
    return {};
  }
  cw::result<void> rename(const std::string& from, const std::string& to) {
    CAUSEWAY_TRY(sim::disk::rename(from, to));
    if (missing == fault::sync_after_rename) {  // and so late that the name is durable before the bytes
      CAUSEWAY_TRY(sim::disk::sync_folder(folder));
      return sim::disk::sync(late);
    }
    return {};
  }
  cw::result<void> sync_folder(const std::string& path) {
    if (missing == fault::no_folder_sync) return {};
    if (missing == fault::no_sync_above && path != folder) return {};
    return sim::disk::sync_folder(path);
  }

  fault missing;
  file_type late;
};

using directory = io::checkpoint_directory<io::basic_file_storage<careless>>;

// What a peer knows of its checkpoints, beside what the disk holds: its saves in order, and which of them the disk
// acknowledged.
struct knowledge {
  std::vector<std::pair<saved, bool>> saves;

  // The place of the acknowledged save that has `back` acknowledged ones after it; 0 if there is none.
  [[nodiscard]] std::size_t acknowledged(unsigned back) const {
    for (std::size_t i = saves.size(); i > 0; --i) {
      if (saves[i - 1].second && back-- == 0) return i;
    }
    return 0;
  }
};

struct setting {
  bool large = false;
  unsigned flips = 0;  // bits flipped since the last two acknowledged saves
  careless::fault missing = careless::fault::none;
};

inline directory open(const sim::disk& disk, const setting& set) {
  return directory{io::basic_file_storage<careless>{careless{disk, set.missing}}, folder};
}

inline bool save(directory& checkpoints, knowledge& known, saved what, const setting& set) {
  const bool done = checkpoints.save(what.step, sections_of(what, set.large)).has_value();
  known.saves.emplace_back(what, done);
  return done;
}

// Empty, or what is wrong with what `load_newest` gives after a crash.
inline std::string violation(directory& checkpoints, const knowledge& known, const setting& set, saved* loaded = nullptr) {
  const auto found = checkpoints.load_newest();
  // With one flipped bit the save before the newest acknowledged one will do, and whatever was tried since.
  const std::size_t oldest = known.acknowledged(set.flips);
  if (!found) return oldest == 0 ? "" : "nothing to load: " + found.error().text();
  const auto what = recognise(found->file, set.large);
  if (!what) return "wrong data in step " + std::to_string(found->file.stamp().step);
  if (loaded != nullptr) *loaded = *what;
  for (std::size_t i = oldest == 0 ? 0 : oldest - 1; i < known.saves.size(); ++i) {
    if (known.saves[i].first == *what) return "";
  }
  return "an acknowledged checkpoint is lost: step " + std::to_string(what->step) + " came back; " + found->note;
}

// Every outcome of a crash, depth first, at most `most` of them.
template <class Look>
std::size_t every_crash(const sim::disk& before, std::size_t most, Look look) {
  std::vector<std::uint64_t> taken;
  std::vector<std::uint64_t> bounds;
  for (std::size_t outcomes = 1;; ++outcomes) {
    std::size_t depth = 0;
    sim::disk after = before.clone();
    after.crash([&](std::uint64_t bound) {
      if (depth == taken.size()) {
        taken.push_back(0);
        bounds.push_back(bound);
      }
      return taken[depth++];
    });
    look(after);
    while (!taken.empty() && taken.back() + 1 == bounds.back()) {
      taken.pop_back();
      bounds.pop_back();
    }
    if (taken.empty() || outcomes == most) return outcomes;
    ++taken.back();
  }
}

}  // namespace checkpoints

#endif  // CAUSEWAY_TESTS_SIM_SAVED_CHECKPOINTS_HPP
