package logs

import (
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// hidden replaces a secret.
const hidden = "[hidden]"

// secrets are the last words of keys whose values are secret: "token", and so also
// "api_token" and "X-Api-Token".
var secrets = []string{
	"authorization", "token", "password", "passwd", "secret", "cookie", "credential", "credentials",
	"apikey", "api_key", "api-key", "private_key", "private-key", "privatekey",
}

// blank hides secrets: values with such keys or in groups with such names, the
// credentials of Authorization headers, and passwords in addresses. It is a last
// resort: callers should not log secrets.
func blank(groups []string, a slog.Attr) slog.Attr {
	if isSecret(a.Key) || slices.ContainsFunc(groups, isSecret) {
		return slog.String(a.Key, hidden)
	}
	if a.Value.Kind() == slog.KindString {
		if text := a.Value.String(); strings.Contains(text, "://") || strings.Contains(text, " ") {
			if cleaned := clean(text); cleaned != text {
				return slog.String(a.Key, cleaned)
			}
		}
	}
	return a
}

// blankJSON is blank for JSON, where durations are in seconds, as everywhere in
// Bullpen.
func blankJSON(groups []string, a slog.Attr) slog.Attr {
	a = blank(groups, a)
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

// isSecret reports whether key, or its last word, is one of secrets.
func isSecret(key string) bool {
	for _, s := range secrets {
		if len(key) < len(s) || !strings.EqualFold(key[len(key)-len(s):], s) {
			continue
		}
		rest := key[:len(key)-len(s)]
		if rest == "" || strings.ContainsAny(rest[len(rest)-1:], "_-. ") {
			return true
		}
		// accessToken
		if first := key[len(rest)]; first >= 'A' && first <= 'Z' {
			return true
		}
	}
	return false
}

// Clean hides in a text of several lines what would be hidden in the log: credentials
// after "Bearer", and users with passwords in addresses.
func Clean(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return strings.Join(lines, "\n")
}

// clean hides credentials after "Bearer" or a header's "Basic", and the password of
// each address in text.
func clean(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if i > 0 && w != "" && isScheme(words[:i], len(words)) {
			words[i] = hidden
			continue
		}
		if strings.Contains(w, "://") && strings.Contains(w, "@") {
			words[i] = cleanAddress(w)
		}
	}
	return strings.Join(words, " ")
}

// isScheme reports whether the last of the words before introduces credentials, even
// after punctuation as in "Authorization:Bearer". "Basic" is also a normal word, so
// it must be the value of a header.
func isScheme(before []string, words int) bool {
	word := before[len(before)-1]
	if n := len(word) - len("bearer"); n >= 0 && strings.EqualFold(word[n:], "bearer") && (n == 0 || !isLetter(word[n-1])) {
		return true
	}
	if !strings.EqualFold(word, "basic") {
		return false
	}
	return words == 2 || len(before) > 1 && strings.HasSuffix(before[len(before)-2], ":")
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// cleanAddress hides user and password of an address: the text between "://" and the
// last "@" before the path. There may be several addresses, separated by commas.
func cleanAddress(word string) string {
	parts := strings.Split(word, ",")
	for i, p := range parts {
		before, rest, ok := strings.Cut(p, "://")
		if !ok {
			continue
		}
		authority, path, slash := strings.Cut(rest, "/")
		at := strings.LastIndexByte(authority, '@')
		if at < 0 {
			continue
		}
		user, _, _ := strings.Cut(authority[:at], ":")
		if !strings.Contains(authority[:at], ":") {
			user = hidden // a NATS token has no password
		} else if _, err := url.PathUnescape(user); err != nil {
			user = hidden
		} else {
			user += ":" + hidden
		}
		p = before + "://" + user + authority[at:]
		if slash {
			p += "/" + path
		}
		parts[i] = p
	}
	return strings.Join(parts, ",")
}
