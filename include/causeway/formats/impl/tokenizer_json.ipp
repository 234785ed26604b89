// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_TOKENIZER_JSON_IPP
#define CAUSEWAY_FORMATS_IMPL_TOKENIZER_JSON_IPP

// Bodies of formats/tokenizer_json.hpp.

#include <causeway/formats/tokenizer_json.hpp>

#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/formats/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

inline constexpr std::string_view end_of_text_name = "<|endoftext|>";

/// GPT-2's letter for each byte: itself where it is printable in Latin-1, else one of the letters from U+0100 on, in order.
inline std::array<std::string, 256> byte_letters() {
  std::array<std::string, 256> letters;
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const unsigned code = printable ? b : next++;
    if (code < 0x80) {
      letters[b] = static_cast<char>(code);
    } else {
      letters[b] = {static_cast<char>(0xC0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3FU))};
    }
  }
  return letters;
}

inline std::string letters_of(std::string_view bytes) {
  static const auto letters = byte_letters();
  std::string text;
  for (const char c : bytes) text += letters[static_cast<unsigned char>(c)];
  return text;
}

/// The pieces of data::first_piece on the letters of bytes. One letter is one byte, so that lengths are counted in bytes; a
/// long piece ends where no UTF-8 sequence goes on. Blanks leave the last of them to what follows.
inline std::string piece_pattern() {
  const auto range = [](int first, int last) {
    std::string all;
    for (int b = first; b <= last; ++b) all += letters_of(std::string(1, static_cast<char>(b)));
    return all;
  };
  const std::string most = std::to_string(data::longest_piece), after_space = std::to_string(data::longest_piece - 1);
  const std::string letter = "A-Za-z" + range(0x80, 0xFF), blank = range('\t', '\r') + range(' ', ' '),
                    space = range(' ', ' ');
  const auto run = [&](const std::string& kind, const std::string& end) {
    return space + "[" + kind + "]{1," + after_space + "}" + end + "|[" + kind + "]{1," + most + "}" + end;
  };
  return "'(?:[stmd]|re|ve|ll)|" + run(letter, "(?![" + range(0x80, 0xBF) + "])") + "|" + run("0-9", "") + "|" +
         run("^A-Za-z0-9" + range(0x80, 0xFF) + blank, "") + "|[" + blank + "]{1," + most + "}(?=[" + blank + "]|\\z)|[" +
         blank + "]";
}

inline std::string pre_tokenizer_text() {
  return R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},)"
         R"({"type":"Split","pattern":{"Regex":)" +
         json_quoted(piece_pattern()) + R"(},"behavior":"Isolated","invert":false}]})";
}

inline bool same(const json_value& a, const json_value& b) {
  if (a.type != b.type || a.boolean != b.boolean || a.number != b.number || a.text != b.text) return false;
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const json_value* const other = a.is_object() ? b.find(a.names[i]) : &b.items[i];
    if (other == nullptr || !same(a.items[i], *other)) return false;
  }
  return true;
}

/// Reads a tokenizer whose tokens are numbered as ours.
class tokenizer_reader {
 public:
  tokenizer_reader(const json_value& root, const std::string& where) : root_{root}, where_{where} {}

  result<data::bpe_tokenizer> read() {
    CAUSEWAY_ASSIGN(const json_value wanted, parse_json(pre_tokenizer_text(), where_));
    const json_value* const cuts = root_.find("pre_tokenizer");
    if (cuts == nullptr || !same(*cuts, wanted)) return refuse("cuts text by other rules");
    if (!is_missing(root_, "normalizer")) return refuse("changes text before it is cut");
    const json_value* const model = root_.find("model");
    if (model == nullptr || !model->is_object() || text_of(*model, "type") != "BPE") return refuse("is no BPE");
    for (const char* name : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!is_missing(*model, name)) return refuse(std::string{"has a "} + name);
    }
    number_bytes();
    CAUSEWAY_ASSIGN(const auto merges, read_merges(*model));
    CAUSEWAY_TRY(check_vocabulary(*model, merges.size()));
    CAUSEWAY_ASSIGN(const bool with_end, read_end(merges.size()));
    return data::bpe_tokenizer::make(merges, with_end);
  }

 private:
  [[nodiscard]] error refuse(const std::string& why) const {
    return fail(errc::unsupported, where_,
                why + ", which the tokenizers here do not; those that causeway export has written can be read");
  }
  static bool is_missing(const json_value& from, const char* name) {
    const json_value* const v = from.find(name);
    return v == nullptr || v->is(json_value::kind::null) || (v->is(json_value::kind::text) && v->text.empty());
  }
  static std::string text_of(const json_value& from, const char* name) {
    const json_value* const v = from.find(name);
    return v == nullptr ? std::string{} : v->text;
  }

  void number_bytes() {
    for (int b = 0; b < 256; ++b) numbers_[letters_of(std::string(1, static_cast<char>(b)))] = b;
  }

  // "left right", or a list of both.
  result<std::vector<data::bpe_merge>> read_merges(const json_value& model) {
    const json_value* const from = model.find("merges");
    if (from == nullptr || !from->is(json_value::kind::list)) return refuse("has no merges");
    std::vector<data::bpe_merge> merges;
    for (const json_value& m : from->items) {
      const std::size_t gap = m.text.find(' ');
      const bool listed = m.is(json_value::kind::list) && m.items.size() == 2;
      if (!listed && gap == std::string::npos) return refuse("has a merge of something else than two tokens");
      const std::string left = listed ? m.items[0].text : m.text.substr(0, gap);
      const std::string right = listed ? m.items[1].text : m.text.substr(gap + 1);
      const auto l = numbers_.find(left), r = numbers_.find(right);
      if (l == numbers_.end() || r == numbers_.end()) return refuse("merges tokens that it does not make before");
      merges.push_back({l->second, r->second});
      const auto next = static_cast<std::int32_t>(255 + merges.size());
      if (!numbers_.emplace(left + right, next).second) return refuse("makes a token in two ways");
    }
    return merges;
  }

  result<void> check_vocabulary(const json_value& model, std::size_t merges) const {
    const json_value* const vocabulary = model.find("vocab");
    if (vocabulary == nullptr || !vocabulary->is_object()) return refuse("has no vocab");
    std::size_t ours = 0;
    for (std::size_t i = 0; i < vocabulary->items.size(); ++i) {
      if (vocabulary->names[i] == end_of_text_name) continue;
      const auto known = numbers_.find(vocabulary->names[i]);
      const bool same_number = known != numbers_.end() && vocabulary->items[i].is(json_value::kind::integer) &&
                               vocabulary->items[i].integer == known->second;
      if (!same_number) return refuse("numbers its tokens in another order");
      ++ours;
    }
    if (ours != 256 + merges) return refuse("leaves tokens out");
    return {};
  }

  result<bool> read_end(std::size_t merges) const {
    const json_value* const added = root_.find("added_tokens");
    if (added == nullptr || added->items.empty()) return false;
    const json_value& token = added->items.front();
    const json_value* const id = token.find("id");
    const bool sound = added->items.size() == 1 && text_of(token, "content") == end_of_text_name && id != nullptr &&
                       id->integer == static_cast<std::int64_t>(256 + merges);
    if (!sound) return refuse("has tokens that no text is cut into");
    return true;
  }

  const json_value& root_;
  const std::string& where_;
  std::map<std::string, std::int32_t> numbers_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL result<std::string> tokenizer_text(const data::bpe_tokenizer& tokenizer) {
  const auto named = [&](std::int32_t token) { return detail::letters_of(tokenizer.token_bytes(token)); };
  std::string vocabulary, merges, added;
  std::set<std::string> names;
  const auto count = static_cast<std::int32_t>(256 + tokenizer.merges().size());
  for (std::int32_t i = 0; i < count; ++i) {
    const std::string name = named(i);
    vocabulary += (i > 0 ? "," : "") + json_quoted(name) + ":" + std::to_string(i);
    if (names.insert(name).second) continue;
    return fail(errc::unsupported, "tokenizer.json",
                "token " + std::to_string(i) +
                    " has the same bytes as one before it, and this format knows tokens by their "
                    "bytes; the model can be used without it");
  }
  for (const data::bpe_merge& m : tokenizer.merges()) {
    merges += (merges.empty() ? "" : ",") + json_quoted(named(m.left) + " " + named(m.right));
  }
  const std::string end = json_quoted(detail::end_of_text_name);
  if (const auto token = tokenizer.end_of_text()) {
    added = "{\"id\":" + std::to_string(*token) + ",\"content\":" + end +
            R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
    vocabulary += "," + end + ":" + std::to_string(*token);
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":null,"pre_tokenizer":)" + detail::pre_tokenizer_text() +
         R"(,"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})"
         R"(,"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null)"
         R"(,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{)" +
         vocabulary + "},\"merges\":[" + merges + "]}}\n";
}

CAUSEWAY_DECL std::string tokenizer_config_text(const data::bpe_tokenizer& tokenizer, std::int64_t context) {
  std::string text = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false,\n";
  if (tokenizer.end_of_text()) text += "  \"eos_token\": " + json_quoted(detail::end_of_text_name) + ",\n";
  return text + "  \"model_max_length\": " + std::to_string(context) + "\n}\n";
}

CAUSEWAY_DECL result<data::bpe_tokenizer> read_tokenizer(std::string_view text, const std::string& where) {
  CAUSEWAY_ASSIGN(const json_value root, parse_json(text, where));
  if (!root.is_object()) return fail(errc::corrupt, where, "is not an object; get the file again");
  return detail::tokenizer_reader{root, where}.read();
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_TOKENIZER_JSON_IPP
