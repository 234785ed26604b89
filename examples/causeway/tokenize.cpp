// SPDX-License-Identifier: Apache-2.0
#include "tokenize.hpp"

#include <causeway/data/token_shard.hpp>
#include <causeway/io/file.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "data_paths.hpp"
#include "report.hpp"
#include "text_codec.hpp"
#include "text_tokens.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
namespace data = causeway::data;
namespace fs = std::filesystem;
namespace io = causeway::io;

// Files train_000000.bin, train_000001.bin and so on in a folder.
class shard_series {
 public:
  shard_series(std::string prefix, data::token_width width, std::int64_t tokens_each)
      : prefix_{std::move(prefix)}, width_{width}, tokens_each_{tokens_each} {}

  causeway::result<void> add(std::span<const std::int32_t> tokens) {
    while (!tokens.empty()) {
      if (!current_) {
        char number[16];
        std::snprintf(number, sizeof number, "_%06u.bin", files_);
        CAUSEWAY_ASSIGN(data::shard_builder next, data::shard_builder::make(prefix_ + number, width_));
        current_.emplace(std::move(next));
        ++files_;
      }
      const auto room = static_cast<std::size_t>(tokens_each_ - current_->size());
      const auto now = tokens.first(std::min(room, tokens.size()));
      CAUSEWAY_TRY(current_->add(now));
      total_ += static_cast<std::int64_t>(now.size());
      tokens = tokens.subspan(now.size());
      if (current_->size() == tokens_each_) CAUSEWAY_TRY(finish());
    }
    return {};
  }

  causeway::result<void> finish() {
    if (current_) CAUSEWAY_TRY(current_->finish());
    current_.reset();
    return {};
  }

  [[nodiscard]] unsigned files() const { return files_; }
  [[nodiscard]] std::int64_t total() const { return total_; }

 private:
  std::string prefix_;
  data::token_width width_;
  std::int64_t tokens_each_;
  std::optional<data::shard_builder> current_;
  unsigned files_ = 0;
  std::int64_t total_ = 0;
};

// A folder beside the one that is wanted, which becomes it when all is in it.
class new_folder {
 public:
  static causeway::result<new_folder> make(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::error_code failure;
    if (fs::exists(path, failure) && !(fs::is_directory(path, failure) && fs::is_empty(path, failure))) {
      return fail(errc::invalid_argument, path, "is there already; delete it, or write to another folder");
    }
    const std::string beside = path + ".unfinished";
    if (fs::create_directories(beside, failure)) return new_folder{std::move(path), beside};
    if (failure) return fail(errc::io_failed, beside, "cannot be made: " + failure.message() + "; write to another folder");
    return fail(errc::invalid_argument, beside,
                "is what a tokenize that was killed has left, or what one that runs writes to; delete it if none runs");
  }
  new_folder(new_folder&& other) noexcept : path_{std::move(other.path_)}, beside_{std::exchange(other.beside_, {})} {}
  new_folder& operator=(new_folder&&) = delete;
  ~new_folder() {
    std::error_code ignored;
    if (!beside_.empty()) fs::remove_all(beside_, ignored);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return beside_ + "/" + name; }

  causeway::result<void> finish() {
    std::error_code failure;
    fs::rename(beside_, path_, failure);
    if (failure) return fail(errc::io_failed, path_, "cannot be given its name: " + failure.message());
    beside_.clear();
    return {};
  }

 private:
  new_folder(std::string path, std::string beside) : path_{std::move(path)}, beside_{std::move(beside)} {}

  std::string path_;
  std::string beside_;
};

causeway::result<text_codec> codec_for(const settings& s, const data_paths& paths) {
  if (s.data.tokenizer == "bytes") return text_codec{s, data::byte_tokenizer{}};
  CAUSEWAY_ASSIGN(auto named, named_tokenizer(s));
  if (!named && s.data.tokenizer != "bpe") return tokenizer_missing(s);
  if (!named) {
    CAUSEWAY_ASSIGN(named, train_tokenizer(s, paths.train));
  }
  return text_codec{s, std::move(*named)};
}

struct written {
  std::uint64_t bytes = 0;
  std::int64_t tokens = 0;
  unsigned files = 0;
  cutting how;
};

causeway::result<written> write_shards(const settings& s, text_codec& codec, const data::data_files& from,
                                       const std::string& prefix) {
  CAUSEWAY_ASSIGN(auto documents, open_documents(s, from));
  shard_series shards{prefix, codec.width(), s.data.shard_tokens};
  cutting how{.quiet = s.quiet, .threads = cutting_threads(s)};
  CAUSEWAY_TRY(cut_into_tokens(
      codec, documents, [&](auto tokens) { return shards.add(tokens); }, how));
  if (shards.total() == 0) {
    return fail(errc::bad_text, from.paths.front(), "the text is empty. Give a file with text in it");
  }
  CAUSEWAY_TRY(shards.finish());
  return written{documents.size(), shards.total(), shards.files(), how};
}

// How much several threads bring: how many of them had text to cut, on average.
std::string at_work(const cutting& how, double seconds) {
  if (how.threads == 1 || seconds <= 0) return {};
  char text[80];
  std::snprintf(text, sizeof text, "; %.1f of %u threads at work on average", how.busy_seconds / seconds, how.threads);
  return text;
}

void tell(const written& w, const char* what, double seconds, const std::string& where) {
  const auto tokens = static_cast<double>(w.tokens);
  std::printf("%s: %lld tokens of %s in %u %s of %s, %.0f tokens/s%s\n", what, static_cast<long long>(w.tokens),
              human_bytes(static_cast<double>(w.bytes)).c_str(), w.files, w.files == 1 ? "file" : "files", where.c_str(),
              seconds > 0 ? tokens / seconds : tokens, at_work(w.how, seconds).c_str());
}

}  // namespace

causeway::result<int> tokenize(settings s, const std::vector<std::string>& positional) {
  if (positional.size() != 2) {
    return fail(errc::invalid_argument, "tokenize", "say what and where to: causeway tokenize IN OUT [--tokenizer DIR]");
  }
  s.data.path = positional[0];
  if (s.data.tokenizer == "model") {
    return fail(errc::invalid_argument, "data.tokenizer", "name the folder of the model itself: --data.tokenizer DIR");
  }
  CAUSEWAY_TRY(validate(s));
  CAUSEWAY_ASSIGN(const data_paths paths, find_data_paths(s));
  CAUSEWAY_ASSIGN(new_folder out, new_folder::make(positional[1]));
  CAUSEWAY_ASSIGN(text_codec codec, codec_for(s, paths));
  io::posix_storage storage;
  CAUSEWAY_TRY(codec.merges().save(storage, out / "tokenizer.bpe"));

  const auto timed = [&](const data::data_files& from, const char* name) -> causeway::result<void> {
    const auto begin = std::chrono::steady_clock::now();
    CAUSEWAY_ASSIGN(const written w, write_shards(s, codec, from, out / name));
    tell(w, name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), out.path());
    return {};
  };
  CAUSEWAY_TRY(timed(paths.train, "train"));
  if (paths.validation) CAUSEWAY_TRY(timed(*paths.validation, "val"));
  CAUSEWAY_TRY(out.finish());
  std::printf("train on them with --data.path %s\n", out.path().c_str());
  return 0;
}

}  // namespace app
