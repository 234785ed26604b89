// SPDX-License-Identifier: Apache-2.0
#include "text_tokens.hpp"

#include <causeway/core/thread_pool.hpp>
#include <causeway/data/bpe_trainer.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "report.hpp"
#include "stop.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
using causeway::formats::document_piece;
using causeway::formats::document_reader;
namespace data = causeway::data;

// Calls `f` with each piece of all documents, until somebody wants to stop.
template <class F>
causeway::result<void> for_each_piece(document_reader& documents, byte_line& line, F&& f) {
  for (;;) {
    if (stop_requested()) return fail(errc::cancelled, "data.path", "stopped before all of it was cut into tokens");
    CAUSEWAY_ASSIGN(const auto piece, documents.next());
    if (!piece) return {};
    CAUSEWAY_TRY(f(*piece));
    line.show(documents.position(), documents.size());
  }
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Pieces that follow each other, for one thread to cut. Its codec is its own: it remembers words.
class share_of_text {
 public:
  explicit share_of_text(text_codec codec) : codec_{std::move(codec)} {}

  // `joint` stands between the document before and this one.
  void add(std::string_view joint, const document_piece& piece) {
    text_ += piece.text;
    parts_.push_back({joint, text_.size(), piece.ends_document});
  }

  [[nodiscard]] bool full() const { return text_.size() >= (std::size_t{1} << 19U); }
  [[nodiscard]] std::span<const std::int32_t> tokens() const { return tokens_; }

  double cut() {
    const auto begin = std::chrono::steady_clock::now();
    const auto end_of_text = codec_.end_of_text();
    std::size_t at = 0;
    for (const part& p : parts_) {
      if (!p.joint.empty()) codec_.encode(p.joint, tokens_);
      codec_.encode(std::string_view{text_}.substr(at, p.end - at), tokens_);
      if (p.ends_document && end_of_text) tokens_.push_back(*end_of_text);
      at = p.end;
    }
    return seconds_since(begin);
  }

  void clear() { text_.clear(), parts_.clear(), tokens_.clear(); }

 private:
  struct part {
    std::string_view joint;
    std::size_t end;
    bool ends_document;
  };

  text_codec codec_;
  std::string text_;
  std::vector<part> parts_;
  std::vector<std::int32_t> tokens_;
};

// Gathers a share for each thread, has all of them cut at once, and gives their tokens on in the order of the text. What a
// piece is cut into depends on nothing but the piece, so that any number of threads gives the same tokens.
class parallel_cutter {
 public:
  parallel_cutter(const text_codec& codec, const token_sink& sink, cutting& how)
      : sink_{sink}, how_{how}, ends_{codec.end_of_text().has_value()}, pool_{how.threads} {
    for (unsigned i = 0; i < pool_.size(); ++i) shares_.emplace_back(codec);
  }

  causeway::result<void> add(const document_piece& piece) {
    shares_[filled_].add(last_ == 0 ? "" : last_ == '\n' ? "\n" : "\n\n", piece);
    last_ = piece.ends_document && !ends_ ? piece.text.back() : '\0';
    if (!shares_[filled_].full() || ++filled_ < shares_.size()) return {};
    return flush();
  }

  causeway::result<void> flush() {
    std::vector<double> busy(shares_.size());
    pool_.run([&](unsigned i) { busy[i] = shares_[i].cut(); });
    how_.busy_seconds = std::accumulate(busy.begin(), busy.end(), how_.busy_seconds);
    for (share_of_text& share : shares_) {
      CAUSEWAY_TRY(sink_(share.tokens()));
      share.clear();
    }
    filled_ = 0;
    return {};
  }

 private:
  const token_sink& sink_;
  cutting& how_;
  bool ends_;  // the tokenizer has an end of text
  causeway::thread_pool pool_;
  std::vector<share_of_text> shares_;
  std::size_t filled_ = 0;
  char last_ = 0;  // of the document before, which the next one is to be set apart from
};

}  // namespace

byte_line::byte_line(std::string doing, bool quiet)
    : doing_{std::move(doing)}, shown_{!quiet && isatty(STDOUT_FILENO) != 0}, begin_{std::chrono::steady_clock::now()} {}

byte_line::~byte_line() {
  if (open_) std::printf("\r\033[K");
}

void byte_line::show(std::uint64_t done, std::uint64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || (open_ && now - last_ < std::chrono::milliseconds{100})) return;
  open_ = true;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const auto part = static_cast<double>(done), whole = static_cast<double>(all);
  std::printf("\r\033[K%s: %s of %s (%.0f %%), %s/s", doing_.c_str(), human_bytes(part).c_str(), human_bytes(whole).c_str(),
              whole > 0 ? 100 * part / whole : 100.0, human_bytes(seconds > 0 ? part / seconds : 0).c_str());
  if (done > 0 && seconds > 1) std::printf(", %s left", human_seconds(seconds * (whole - part) / part).c_str());
  std::fflush(stdout);
}

causeway::result<document_reader> open_documents(const settings& s, data::data_files files) {
  return document_reader::open(std::move(files), s.data.field);
}

causeway::result<data::bpe_tokenizer> train_tokenizer(const settings& s, const data::data_files& files) {
  if (s.data.vocabulary < 257 || s.data.vocabulary > 65536) {
    return fail(errc::invalid_argument, "data.vocabulary", "use 257 to 65536: the first 256 tokens are the bytes");
  }
  if (!s.quiet) std::printf("training a tokenizer with %lld tokens ...\n", static_cast<long long>(s.data.vocabulary));
  CAUSEWAY_ASSIGN(document_reader documents, open_documents(s, files));
  const bool with_end = documents.has_several();
  data::bpe_trainer trainer{
      {.merges = static_cast<std::size_t>(s.data.vocabulary - 256 - (with_end ? 1 : 0)), .end_of_text = with_end}};
  {
    byte_line line{"counting words", s.quiet};
    CAUSEWAY_TRY(for_each_piece(documents, line, [&](const document_piece& piece) {
      trainer.add(piece.text);
      return causeway::result<void>{};
    }));
  }
  return trainer.train();
}

causeway::result<void> cut_into_tokens(text_codec& codec, document_reader& documents, const token_sink& sink,
                                       cutting& how) {
  CAUSEWAY_TRY(codec.check_special_of_texts());
  byte_line line{"cutting into tokens", how.quiet};
  parallel_cutter cutter{codec, sink, how};
  CAUSEWAY_TRY(for_each_piece(documents, line, [&](const document_piece& piece) { return cutter.add(piece); }));
  return cutter.flush();
}

unsigned cutting_threads(const settings& s) {
  return s.net.threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : s.net.threads;
}

}  // namespace app
