// SPDX-License-Identifier: Apache-2.0
#include "text_tokens.hpp"

#include <causeway/data/bpe_trainer.hpp>

#include <cstdio>
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

causeway::result<void> cut_into_tokens(text_codec& codec, document_reader& documents, const token_sink& sink, bool quiet) {
  const auto end = codec.end_of_text();
  byte_line line{"cutting into tokens", quiet};
  std::vector<std::int32_t> tokens;
  char last = 0;  // of the document before
  return for_each_piece(documents, line, [&](const document_piece& piece) {
    tokens.clear();
    if (last != 0) codec.encode(last == '\n' ? "\n" : "\n\n", tokens);
    last = 0;
    codec.encode(piece.text, tokens);
    if (piece.ends_document && end) tokens.push_back(*end);
    if (piece.ends_document && !end) last = piece.text.back();
    return sink(tokens);
  });
}

}  // namespace app
