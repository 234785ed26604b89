// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TEXT_TOKENS_HPP
#define CAUSEWAY_EXAMPLES_TEXT_TOKENS_HPP

// From documents to tokens, of data sets of any size: a tokenizer trained on them, and the tokens, in order, piece by
// piece.

#include <causeway/core/result.hpp>
#include <causeway/formats/document_reader.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// On a terminal, how much of the bytes is done, in place; elsewhere nothing.
class byte_line {
 public:
  byte_line(std::string doing, bool quiet);
  byte_line(const byte_line&) = delete;
  byte_line& operator=(const byte_line&) = delete;
  ~byte_line();
  void show(std::uint64_t done, std::uint64_t all);

 private:
  std::string doing_;
  bool shown_;
  bool open_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_;
};

/// Documents of `files`, as data.field says.
causeway::result<causeway::formats::document_reader> open_documents(const settings& s, causeway::data::data_files files);

/// data.vocabulary tokens learned from the documents. Where there can be several, one of them ends a text.
causeway::result<causeway::data::bpe_tokenizer> train_tokenizer(const settings& s, const causeway::data::data_files& files);

using token_sink = std::function<causeway::result<void>(std::span<const std::int32_t>)>;

/// How text is cut, and what that took.
struct cutting {
  bool quiet = false;
  unsigned threads = 1;
  double busy_seconds = 0;  ///< of all threads together
};

/// As many as net.threads says, or as the machine has.
unsigned cutting_threads(const settings& s);

/// Gives all tokens to `sink`. Each document is followed by the end of text, where the tokenizer has it; else an empty line
/// is between two. The tokens are the same for any number of threads. errc::cancelled when the program is told to stop.
causeway::result<void> cut_into_tokens(text_codec& codec, causeway::formats::document_reader& documents,
                                       const token_sink& sink, cutting& how);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TEXT_TOKENS_HPP
